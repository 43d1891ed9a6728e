package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/engineconfig"
	"github.com/verge-edge/verge/internal/agent/probe"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// fakeEngine is an engine in memory.
type fakeEngine struct {
	mu     sync.Mutex
	run    string
	seq    uint64
	all    map[string]wire.InstanceStatus
	at     map[string]uint64
	gone   map[string]uint64
	orders []engineapi.EngineOrders
	fail   error
	// changes are those that Change took; noChange is an engine that knows none.
	changes  []engineapi.EngineChanges
	noChange bool
	down     bool
	demand   chan wire.Demand // nil: nobody asks for anything
	news     chan struct{}
}

func newFakeEngine(run string) *fakeEngine {
	return &fakeEngine{run: run, all: map[string]wire.InstanceStatus{}, at: map[string]uint64{}, gone: map[string]uint64{}, news: make(chan struct{})}
}

func (f *fakeEngine) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	do()
	close(f.news)
	f.news = make(chan struct{})
}

func (f *fakeEngine) set(id string, phase wire.Phase) {
	f.change(func() { f.all[id], f.at[id] = wire.InstanceStatus{ID: id, Phase: phase}, f.seq })
}

func (f *fakeEngine) Apply(_ context.Context, o engineapi.EngineOrders) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return f.fail
	}
	f.orders = append(f.orders, o)
	return nil
}

// Change makes all orders of it: tests look at the last ones.
func (f *fakeEngine) Change(ctx context.Context, c engineapi.EngineChanges) error {
	f.mu.Lock()
	n := len(f.orders)
	if f.noChange || n == 0 || f.orders[n-1].Have != c.From {
		f.mu.Unlock()
		return errors.New("405 method not allowed")
	}
	f.changes = append(f.changes, c)
	next := f.orders[n-1].With(&c)
	f.mu.Unlock()
	return f.Apply(ctx, next)
}

func (f *fakeEngine) State(ctx context.Context, after uint64, wait time.Duration) (engineapi.EngineState, error) {
	deadline := time.After(wait)
	for {
		f.mu.Lock()
		if f.down {
			f.mu.Unlock()
			return engineapi.EngineState{}, errors.New("connection refused")
		}
		s := engineapi.EngineState{V: wire.Version, Engine: f.run, Seq: f.seq}
		for id, st := range f.all {
			if f.at[id] > after {
				s.Changed = append(s.Changed, st)
			}
		}
		for id, at := range f.gone {
			if after > 0 && at > after {
				s.Gone = append(s.Gone, id)
			}
		}
		news, fresh := f.news, f.seq > after
		f.mu.Unlock()
		if fresh {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-deadline:
			return s, nil
		case <-news:
		}
	}
}

func (f *fakeEngine) Logs(context.Context, string, rpc.LogAsk) (rpc.LogChunk, error) {
	return rpc.LogChunk{}, nil
}

func (f *fakeEngine) Entries(context.Context) ([]rpc.EntryView, error) {
	return []rpc.EntryView{{App: "a", Service: "s", Port: "http", Addr: "127.0.0.1:20000"}}, nil
}

func (f *fakeEngine) Volumes(context.Context) ([]rpc.VolumeView, error)  { return nil, nil }
func (f *fakeEngine) RemoveVolume(context.Context, wire.VolumeRef) error { return errors.New("none") }

func (f *fakeEngine) Metrics(context.Context) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil, errors.New("connection refused")
	}
	return obs.Page("engine", []obs.Sample{{Name: "verge_worker_starts_total", Help: "x", Counter: true, Value: 3}})
}

func (f *fakeEngine) Route(_ context.Context, key string) (rpc.RouteReport, error) {
	return rpc.RouteReport{V: 1, Service: key}, nil
}

func (f *fakeEngine) Measure(context.Context, rpc.MeasureAsk) (rpc.Measured, error) {
	return rpc.Measured{V: 1}, nil
}
func (f *fakeEngine) Net(context.Context) (rpc.NetReport, error) { return rpc.NetReport{V: 1}, nil }

func (f *fakeEngine) Demand(ctx context.Context, _ time.Duration) (d wire.Demand, err error) {
	if f.demand == nil {
		<-ctx.Done()
		return d, ctx.Err()
	}
	select {
	case d = <-f.demand:
		return d, nil
	case <-ctx.Done():
		return d, ctx.Err()
	}
}

func (f *fakeEngine) Top(context.Context) (rpc.WorkerTop, error) { return rpc.WorkerTop{V: 1}, nil }

func (f *fakeEngine) Exec(_ context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
	if q.Session == "away" {
		return rpc.ExecAnswer{}, errors.New("connection refused")
	}
	return rpc.ExecAnswer{Session: q.Do}, nil
}

func newTestAgent(h engineclient.Client) *Agent {
	return &Agent{
		opts: Options{Name: "w1"}, log: slog.New(slog.DiscardHandler), client: h, changed: make(chan struct{}, 1), pulse: make(chan struct{}, 1),
		source: exchange.NewMemSource(),
	}
}

func order(id string, incarnation int) wire.Change {
	b, _ := json.Marshal(wire.Order{V: wire.Version, ID: id, Incarnation: incarnation})
	return wire.Change{Key: "order." + id, Value: b}
}

func ids(o engineapi.EngineOrders) (out []string) {
	for _, x := range o.Orders {
		out = append(out, x.ID)
	}
	return out
}

func TestOrdersReachTheEngineBeforeTheyCount(t *testing.T) {
	ctx := context.Background()
	h := newFakeEngine("e1")
	d := (*desired)(newTestAgent(h))
	at := func(n uint64) wire.Rev { return wire.Rev{Inc: "era", N: n} }
	if err := d.Take(ctx, true, []wire.Change{order("a.b.0", 1), order("a.b.1", 1)}, at(5), nil); err != nil {
		t.Fatal(err)
	}
	h.fail = errors.New("disk full")
	if err := d.Take(ctx, false, []wire.Change{{Key: "order.a.b.0", Deleted: true}}, at(6), nil); err == nil {
		t.Fatal("what the engine could not store was taken")
	}
	if d.Have() != at(5) {
		t.Errorf("have %v after a failure, want what the engine has", d.Have())
	}
	h.fail = nil
	if err := d.Take(ctx, false, []wire.Change{{Key: "order.a.b.0", Deleted: true}, order("a.b.2", 1)}, at(7), nil); err != nil {
		t.Fatal(err)
	}
	last := h.orders[len(h.orders)-1]
	if got := ids(last); !slices.Equal(got, []string{"a.b.1", "a.b.2"}) || last.Have != at(7) {
		t.Errorf("the engine has %v at %v", got, last.Have)
	}
	if err := d.Take(ctx, true, []wire.Change{order("x.y.0", 1)}, at(1), nil); err != nil {
		t.Fatal(err)
	}
	if got := ids(h.orders[len(h.orders)-1]); !slices.Equal(got, []string{"x.y.0"}) {
		t.Errorf("after a full exchange the engine has %v", got)
	}
	if err := d.Take(ctx, false, []wire.Change{{Key: "order.bad", Value: json.RawMessage(`[]`)}}, at(2), nil); err == nil {
		t.Error("an order that cannot be read was taken")
	}
}

// A worker that was upgraded after its cluster fetches all again: a version before left out the
// parts that it did not know, and its engine stored the revision all the same.
func TestPartsThatAVersionBeforeDidNotKnow(t *testing.T) {
	rev := wire.Rev{Inc: "era", N: 7}
	for _, file := range []string{
		`{"v":1,"have":{"i":"era","n":7}}`, `{"v":1,"have":{"i":"era","n":7},"parts":["order.","route."]}`,
	} {
		h := newFakeEngine("e1")
		a := newTestAgent(h)
		a.opts.Dir = t.TempDir()
		if err := os.WriteFile(filepath.Join(a.opts.Dir, engineapi.EngineOrdersFile), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.loadOrders(); err != nil {
			t.Fatal(err)
		}
		lower := a.lower(nil, &enroll.Renewer{})
		if lower.Desired.Have() != rev || !lower.Partial() {
			t.Errorf("%s: has %s, partial %v", file, lower.Desired.Have(), lower.Partial())
		}
		err := lower.Desired.Take(t.Context(), false, []wire.Change{order("a.b.0", 1)}, wire.Rev{Inc: "era", N: 8}, nil)
		if err != nil || !lower.Partial() {
			t.Errorf("%s: what has changed since is not all: %v", file, err)
		}
		err = lower.Desired.Take(t.Context(), true, []wire.Change{order("a.b.0", 1)}, wire.Rev{Inc: "era", N: 8}, nil)
		if err != nil || lower.Partial() {
			t.Errorf("%s: it is partial still: %v", file, err)
		}
		if next := wantedOf(h.orders[len(h.orders)-1]); !slices.Equal(next.parts, engineapi.OrderParts()) {
			t.Errorf("%s: the engine is told %v", file, next.parts)
		}
	}
}

// Each part that a worker says it understands is taken over.
func TestAllPartsAreTaken(t *testing.T) {
	for _, part := range engineapi.OrderParts() {
		h := newFakeEngine("e1")
		d := (*desired)(newTestAgent(h))
		value := json.RawMessage(`{"v":1}`)
		if err := d.Take(t.Context(), true, []wire.Change{{Key: part + "a.b", Value: value}}, wire.Rev{Inc: "era", N: 1}, nil); err != nil {
			t.Fatal(err)
		}
		o := h.orders[len(h.orders)-1]
		if len(o.Orders)+len(o.Routes)+len(o.Secrets)+len(o.Revoked) == 0 && o.Network == nil {
			t.Errorf("%s is left out", part)
		}
	}
}

// The place in the network goes to the engine with the orders, comes back with
// them after a restart, and is not lost by a full exchange that says nothing of it.
func TestThePlaceInTheNetworkIsKept(t *testing.T) {
	ctx := context.Background()
	h := newFakeEngine("e1")
	a := newTestAgent(h)
	a.opts.Dir = t.TempDir()
	d := (*desired)(a)
	body, err := json.Marshal(wire.Lease{Worker: "w1", Number: 7})
	if err != nil {
		t.Fatal(err)
	}
	place, err := json.Marshal(wire.Network{V: wire.Version, Lease: wire.SignedLease{Body: body, Sig: []byte("s")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Take(ctx, true, []wire.Change{{Key: "network.net", Value: place}}, wire.Rev{Inc: "era", N: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if err := d.Take(ctx, true, []wire.Change{order("a.b.0", 1)}, wire.Rev{Inc: "other", N: 1}, nil); err != nil {
		t.Fatal(err)
	}
	last := h.orders[len(h.orders)-1]
	if last.Network == nil || string(last.Network.Lease.Sig) != "s" || leaseIn(last.Network).Number != 7 {
		t.Fatalf("the engine has %+v", last.Network)
	}
	b, err := json.Marshal(last)
	if err == nil {
		err = os.WriteFile(filepath.Join(a.opts.Dir, engineapi.EngineOrdersFile), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := newTestAgent(newFakeEngine("e2"))
	next.opts.Dir, next.secrets = a.opts.Dir, map[string]*wire.SealedSecret{}
	if err := next.loadOrders(); err != nil {
		t.Fatal(err)
	}
	raw, err := next.status(true)
	if err != nil {
		t.Fatal(err)
	}
	var info wire.WorkerInfo
	if err := json.Unmarshal(raw, &info); err != nil || info.Lease == nil || info.Lease.Number != 7 {
		t.Errorf("it says %+v, %v", info.Lease, err)
	}
	if leaseIn(nil) != nil || leaseIn(&wire.Network{}) != nil {
		t.Error("a lease is made of nothing")
	}
}

func TestAnEngineThatStartsAgainIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeEngine("e1")
		a := newTestAgent(h)
		h.set("a.b.0", wire.PhaseRunning)
		h.set("a.b.1", wire.PhaseRunning)
		first, err := a.client.State(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.take(first, true)
		if err := (*desired)(a).Take(t.Context(), true, []wire.Change{order("a.b.0", 1)}, wire.Rev{Inc: "x", N: 1}, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.watch(ctx, first.Seq) }()

		h.set("a.b.0", wire.PhaseExited)
		synctest.Wait()
		if got := phases(t, a); !maps.Equal(got, map[string]wire.Phase{"a.b.0": wire.PhaseExited, "a.b.1": wire.PhaseRunning}) {
			t.Errorf("reported %v", got)
		}
		// It dies, and its successor knows only one of them, under low numbers.
		h.change(func() { h.down = true })
		time.Sleep(time.Second)
		before := len(h.orders)
		h.change(func() {
			h.down, h.run, h.seq = false, "e2", 1
			h.all = map[string]wire.InstanceStatus{"a.b.0": {ID: "a.b.0", Phase: wire.PhaseRunning}}
			h.at = map[string]uint64{"a.b.0": 1}
		})
		time.Sleep(time.Second)
		synctest.Wait()
		if got := phases(t, a); !maps.Equal(got, map[string]wire.Phase{"a.b.0": wire.PhaseRunning}) {
			t.Errorf("after the engine's restart reported %v", got)
		}
		if len(h.orders) != before+1 {
			t.Errorf("the new engine was given its orders %d times, want once", len(h.orders)-before)
		}
		cancel()
		<-done
	})
}

// A new engine that cannot take the orders at once gets them later, although nothing
// changes at the cluster or at the engine.
func TestANewEngineGetsItsOrdersInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeEngine("e1")
		a := newTestAgent(h)
		h.set("a.b.0", wire.PhaseRunning)
		first, err := a.client.State(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.take(first, true)
		if err := (*desired)(a).Take(t.Context(), true, []wire.Change{order("a.b.0", 1)}, wire.Rev{Inc: "x", N: 1}, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.watch(ctx, first.Seq) }()
		defer func() { cancel(); <-done }()

		h.change(func() { h.run, h.orders, h.fail = "e2", nil, errors.New("its disk is full") })
		time.Sleep(statePoll)
		h.mu.Lock()
		h.fail = nil
		h.mu.Unlock()
		time.Sleep(statePoll / 2)
		synctest.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.orders) != 1 {
			t.Errorf("the engine took its orders %d times, want once", len(h.orders))
		}
	})
}

// What is wrong at the engine reaches the cluster, once, and so does its end.
func TestProblemsAreReported(t *testing.T) {
	a := newTestAgent(newFakeEngine("e1"))
	say := func(full bool) (info wire.WorkerInfo, said bool) {
		t.Helper()
		b, err := a.status(full)
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return info, false
		}
		if err := json.Unmarshal(b, &info); err != nil {
			t.Fatal(err)
		}
		return info, true
	}
	say(true)
	const taken = "gateway 127.0.0.1:1 is taken"
	a.take(engineapi.EngineState{Info: engineapi.EngineInfo{Problems: []string{taken}}}, false)
	if info, _ := say(false); !slices.Equal(info.Problems, []string{taken}) || info.Gateway != "" {
		t.Errorf("with a problem: %+v", info)
	}
	if info, said := say(false); said {
		t.Errorf("said twice: %+v", info)
	}
	many := slices.Repeat([]string{strings.Repeat("ä<", 10_000)}, 50)
	a.take(engineapi.EngineState{Info: engineapi.EngineInfo{Problems: many}}, false)
	if b, err := a.status(true); err != nil || len(b) > 64<<10 || !strings.Contains(string(b), "30 more") {
		t.Errorf("%d bytes for many problems, %v", len(b), err)
	}
	a.take(engineapi.EngineState{Info: engineapi.EngineInfo{GatewayAddr: "127.0.0.1:1"}}, false)
	if info, said := say(false); !said || len(info.Problems) != 0 || info.Gateway != "127.0.0.1:1" {
		t.Errorf("after its end: %+v", info)
	}
}

func TestQuestionsOfTheCluster(t *testing.T) {
	a := newTestAgent(newFakeEngine("e1"))
	got, err := a.answer(t.Context(), rpc.Ask{What: "entries"})
	if list, ok := got.([]rpc.EntryView); err != nil || !ok || len(list) != 1 || list[0].Addr != "127.0.0.1:20000" {
		t.Errorf("entries: %v, %v", got, err)
	}
	if got, err := a.answer(t.Context(), rpc.Ask{What: "exec", Exec: &rpc.ExecAsk{Do: "start"}}); err != nil || got.(rpc.ExecAnswer).Session != "start" {
		t.Errorf("a session: %+v, %v", got, err)
	}
	if got, err := a.answer(t.Context(), rpc.Ask{What: "exec"}); err == nil {
		t.Errorf("a session without a step: %+v", got)
	}
	_, err = a.answer(t.Context(), rpc.Ask{What: "exec", Exec: &rpc.ExecAsk{Session: "away"}})
	if p := new(wire.Problem); !errors.As(err, &p) || p.Status != 503 {
		t.Errorf("an engine that does not answer: %v", err)
	}
	if got, err := a.answer(t.Context(), rpc.Ask{What: "weather"}); err == nil {
		t.Errorf("an unknown question is answered: %v", got)
	}
}

// phases are what would be reported to a cluster that knows nothing.
func phases(t *testing.T, a *Agent) map[string]wire.Phase {
	t.Helper()
	changes, _, _, _, err := a.source.Since(context.Background(), wire.Rev{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]wire.Phase{}
	for _, c := range changes {
		var st wire.InstanceStatus
		if err := json.Unmarshal(c.Value, &st); err != nil {
			t.Fatal(err)
		}
		out[c.Key] = st.Phase
	}
	return out
}

func TestTheAdvertisedAddress(t *testing.T) {
	links := []string{"127.0.0.1:8472"}
	for _, tc := range []struct{ set, listening, want string }{
		{"", "", ""},
		{"none", "0.0.0.0:8474", ""},
		{"", "127.0.0.1:8474", "127.0.0.1:8474"},
		{"", "[::]:8474", "127.0.0.1:8474"}, // this machine on the way to its cluster
		{"shop.example", "0.0.0.0:8474", "shop.example:8474"},
		{"shop.example:99", "0.0.0.0:8474", "shop.example:99"},
		{"2001:db8::5", "[::]:8474", "[2001:db8::5]:8474"},
		{"[2001:db8::5]:99", "[::]:8474", "[2001:db8::5]:99"},
	} {
		if got := advertised(tc.set, tc.listening, links); got != tc.want {
			t.Errorf("advertised(%q, %q) = %q, want %q", tc.set, tc.listening, got, tc.want)
		}
	}
}

// A worker cannot be started with memory or disk that its machine does not have.
func TestCapacityThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	for what, set := range map[string]api.Resources{"--memory": {Memory: math.MaxInt64}, "--disk": {Disk: math.MaxInt64}} {
		_, err := probe.Capacity(dir, set, 0)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != "no-such-capacity" || !strings.Contains(p.Detail, what) || !strings.Contains(p.Remedy, what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	set := api.Resources{CPU: 64_000, Memory: 1 << 20, Disk: 1 << 20}
	if got, err := probe.Capacity(dir, set, 0.5); err != nil || got != set {
		t.Errorf("what was set became %+v, %v", got, err)
	}
	got, err := probe.Capacity(dir, api.Resources{}, 0.5)
	if err != nil || got.CPU <= 0 || got.Memory <= 0 || got.Disk < 0 {
		t.Errorf("what was found out is %+v, %v", got, err)
	}
}

func TestASettingThatDoesNotReachTheEngineIsSaid(t *testing.T) {
	a := engineapi.EngineConfig{GatewayAddr: ":8480", Capacity: api.Resources{CPU: 1000}}
	if got := engineconfig.Outdated(a, a); got != "" {
		t.Errorf("nothing differs, and it says %q", got)
	}
	b := a
	b.GatewayAddr, b.Tunnel.Uplink = "", 20_000_000
	if got := engineconfig.Outdated(a, b); !strings.Contains(got, "--gateway") || !strings.Contains(got, `--uplink "0bps" instead of "20Mbps"`) || !strings.Contains(got, "verge worker stop") {
		t.Errorf("it says %q", got)
	}
}

// What the cluster is told of a relay is where others reach it, which has the port of
// the relay whatever that of the data port is.
func TestWhereARelayIsReached(t *testing.T) {
	n := &wire.NetworkInfo{Mode: wire.NetworkOverlay, Relay: &wire.Relay{Name: "edge/w1", Key: "k", Addresses: []string{"[::]:8475"}}}
	for set, want := range map[string]string{"relay.example": "relay.example:8475", "relay.example:9000": "relay.example:8475", "192.0.2.1": "192.0.2.1:8475", "": "127.0.0.1:8475"} {
		got := reachedRelay(n, set, []string{"127.0.0.1:8472"})
		if len(got.Relay.Addresses) != 1 || got.Relay.Addresses[0] != want || got.Relay.Key != "k" || got.Mode != n.Mode {
			t.Errorf("advertised as %q: %+v, want %s", set, got.Relay, want)
		}
	}
	if n.Relay.Addresses[0] != "[::]:8475" {
		t.Error("what the engine said is changed")
	}
	if reachedRelay(nil, "", nil) != nil {
		t.Error("without a network there is a relay")
	}
}

// An engine is told what changed of the routes; where that is not enough it is told
// all, and it has the same either way.
func TestOnlyWhatChangedOfTheRoutesIsHandedOn(t *testing.T) {
	for _, old := range []bool{false, true} {
		h := newFakeEngine("e1")
		h.noChange = old
		a := newTestAgent(h)
		a.secrets = map[string]*wire.SealedSecret{}
		d := (*desired)(a)
		route := func(key, worker string) wire.Change {
			app, service, _ := strings.Cut(key, ".")
			b, err := json.Marshal(wire.Route{V: wire.Version, App: app, Service: service, Endpoints: []wire.Endpoint{{Instance: key + ".0", Worker: worker}}})
			if err != nil {
				t.Fatal(err)
			}
			return wire.Change{Key: "route." + key, Value: b}
		}
		at := func(n uint64) wire.Rev { return wire.Rev{Inc: "era", N: n} }
		for n, step := range []struct {
			full    bool
			changes []wire.Change
		}{
			{true, []wire.Change{route("a.x", "w1"), route("a.y", "w1"), route("a.z", "w1")}},
			{false, []wire.Change{route("a.x", "w2")}},
			{false, []wire.Change{{Key: "route.a.y", Deleted: true}, {Key: "route.a.never", Deleted: true}}},
			{false, []wire.Change{order("b.c.0", 1), route("a.z", "w3")}},
			{false, nil},
		} {
			if err := d.Take(t.Context(), step.full, step.changes, at(uint64(n+1)), nil); err != nil {
				t.Fatal(err)
			}
		}
		h.mu.Lock()
		last := h.orders[len(h.orders)-1]
		var got []string
		for _, r := range last.Routes {
			got = append(got, r.Key()+" "+r.Endpoints[0].Worker)
		}
		if want := []string{"a.x w2", "a.z w3"}; !slices.Equal(got, want) || last.Have != at(5) || len(last.Orders) != 1 {
			t.Errorf("the engine has %v at %v with %d orders, want %v", got, last.Have, len(last.Orders), want)
		}
		if n := len(h.changes); n != map[bool]int{false: 3, true: 0}[old] {
			t.Errorf("it was told %d changes", n)
		}
		h.mu.Unlock()
	}
}

// What the engine uses is said once, and again when it is another or nobody knows what
// was heard; an older engine says nothing. A cluster that does not heed it is asked for
// everything, if a newer one had left something out.
func TestWhatIsUsedIsSaid(t *testing.T) {
	a := newTestAgent(newFakeEngine("e1"))
	a.secrets = map[string]*wire.SealedSecret{}
	says := func() bool {
		t.Helper()
		raw, err := a.status(true)
		var info wire.WorkerInfo
		if err == nil {
			err = json.Unmarshal(raw, &info)
		}
		if err != nil {
			t.Fatal(err)
		}
		return info.Uses
	}
	if a.uses(true) != nil || says() {
		t.Error("something is said for an older engine")
	}
	engine := func(services ...string) {
		a.take(engineapi.EngineState{V: wire.Version, Engine: "e1", Info: engineapi.EngineInfo{Uses: &wire.Uses{Services: services}}}, false)
	}
	engine("a.b")
	select {
	case <-a.changed:
	default:
		t.Error("nobody is told")
	}
	if u := a.uses(false); u == nil || !slices.Equal(u.Services, []string{"a.b"}) || !says() {
		t.Errorf("says %+v", u)
	}
	if u := a.uses(false); u != nil {
		t.Errorf("says again %+v", u)
	}
	if u := a.uses(true); u == nil {
		t.Error("does not say it again when asked")
	}
	engine("a.b", "a.c")
	if u := a.uses(false); u == nil || len(u.Services) != 2 {
		t.Errorf("says %+v", u)
	}
	at := wire.Rev{Inc: "era", N: 1}
	for _, unasked := range []bool{false, true} {
		a.have = at
		a.routes = map[string]*wire.Route{"a.b": {App: "a", Service: "b"}, "a.c": {App: "a", Service: "c", Unasked: unasked}}
		if a.routesFiltered(true); a.have != at {
			t.Error("everything is fetched from one that heeds")
		}
		if a.routesFiltered(false); a.have.IsZero() != unasked {
			t.Errorf("left out %v: has %v", unasked, a.have)
		}
	}
}
