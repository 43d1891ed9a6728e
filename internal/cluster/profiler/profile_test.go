package profiler_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/cluster/profiler"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestProfileTurns(t *testing.T) {
	at := []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2", "", "[fd00::1]:1", ""}
	if got, want := profile.Rounds(at, false), []int{0, 0, 1, 0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := profile.Rounds(at, true), []int{0, 1, 2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("one by one: %v, want %v", got, want)
	}
}

// stage is a cluster with a service on workers that answer steps of a profile.
type stage struct {
	*core.Core
	t     *testing.T
	store *bustest.MemStore

	mu    sync.Mutex
	nodes map[string]rpc.ProfileNode // what a worker says
	asked []string
}

func newStage(t *testing.T, store *bustest.MemStore) *stage {
	c := clustertest.NewCore(t, store)
	s := &stage{Core: c, t: t, store: store, nodes: map[string]rpc.ProfileNode{}}
	for i, name := range []string{"w1", "w2", "w3"} {
		w := state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: name, Arch: "amd64",
			Address: "10.0.0." + name[1:] + ":1", Capacity: api.Resources{CPU: 4000}}}, time.Now())
		if c.M.Workers[name] = w; name == "w3" {
			w.Info.Address = "10.0.0.1:2" // the machine of w1
		}
		id := state.InstanceID("app", "web", i)
		c.M.Insts[id] = &wire.Instance{ID: id, App: "app", Service: "web", Ordinal: i, Worker: name,
			State: wire.Running, Conditions: wire.Conditions{Ready: true}}
		s.nodes[name] = rpc.ProfileNode{State: rpc.ProfileRuns, Concurrency: 10}
		exchangetest.OnAsk(t, c.Local, exchange.WorkerSubjects(name),
			func(q rpc.Ask, sent string) (any, *wire.Problem) { return s.answer(name, q, sent), nil })
	}
	c.M.FromRoot["app.web"] = &wire.Share{V: wire.Version, App: "app", Service: "web", Revision: 1, Min: 3, Max: 3,
		Ordinals: []wire.Span{{To: 3}}, Spec: &api.Service{
			Runtime: "process", Command: []string{"x"}, Ports: []api.Port{{Protocol: "http"}},
			Policy: api.Policy{Name: api.PolicyWeighted},
		}}
	reconcile.Effect(c.M)
	return s
}

func (s *stage) answer(name string, q rpc.Ask, sent string) rpc.ExecAnswer {
	if q.What != "exec" || q.Exec.Profile == nil || q.Exec.Owner != "ann" {
		s.t.Errorf("the worker was asked %s", sent)
		return rpc.ExecAnswer{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, q.Exec.Profile.Do+" "+name)
	return rpc.ExecAnswer{Profile: &rpc.ProfileReport{V: wire.Version, Nodes: []rpc.ProfileNode{s.nodes[name]}}}
}

func (s *stage) say(name, state string, requests int, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name] = rpc.ProfileNode{State: state, Requests: requests, Span: api.Duration(10 * time.Second),
		Concurrency: 10, Problem: problem}
}

// heard is what the workers were asked since the last time, in order of their names.
func (s *stage) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Sorted(slices.Values(s.asked))
	s.asked = nil
	return strings.Join(out, ", ")
}

func (s *stage) step(do, key string) (*rpc.ProfileReport, string) {
	s.t.Helper()
	q := &rpc.ProfileAsk{Do: do, App: "app", Service: "web", Key: key}
	if do == rpc.ProfileStart {
		q.Load = &rpc.ProfileLoad{For: api.Duration(10 * time.Second), Body: []byte("secret")}
	}
	r, err := profiler.Profile(s.t.Context(), s.Core, q, "ann")
	var p *wire.Problem
	switch {
	case errors.As(err, &p):
		return nil, p.Code
	case err != nil:
		s.t.Fatal(err)
	}
	return r, ""
}

func (s *stage) served() map[string]float64 {
	s.t.Helper()
	if _, err := controller.Pass(s.t.Context(), s.Core, time.Now(), true); err != nil {
		s.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, e := range s.M.Routes["app.web"].Endpoints {
		out[e.Worker+" "+e.ServesBy] = e.Serves
	}
	return out
}

// Workers have their turns, what they say is stored when it is to be kept, and the
// routes have it from then on, also after a restart.
func TestProfileIsKept(t *testing.T) {
	s := newStage(t, bustest.NewMemStore())
	if r, code := s.step(rpc.ProfileStart, "key-0001"); code != "" || r.State != rpc.ProfileRuns ||
		len(r.Nodes) != 3 || r.Whole.Std() != 22*time.Second {
		t.Fatalf("%+v %s", r, code)
	}
	if got := s.heard(); got != "start w1, start w2" {
		t.Errorf("asked: %s", got)
	}
	if _, code := s.step(rpc.ProfileStart, "key-0001"); code != "" || s.heard() != "" {
		t.Errorf("the same again: %s", code)
	}
	if _, code := s.step(rpc.ProfileStart, "key-0002"); code != "profiled-already" {
		t.Errorf("another: %q", code)
	}
	for _, do := range []string{rpc.ProfileLook, rpc.ProfileKeep, rpc.ProfileEnd} {
		if _, code := s.step(do, "key-0002"); code != "not-profiled" {
			t.Errorf("%s of another: %q", do, code)
		}
	}
	if _, code := s.step(rpc.ProfileKeep, "key-0001"); code != "not-measured" {
		t.Errorf("kept while it goes on: %q", code)
	}
	s.say("w1", rpc.ProfileDone, 4000, "")
	if r, _ := s.step(rpc.ProfileLook, "key-0001"); r.State != rpc.ProfileRuns || s.heard() != "look w1, look w2" {
		t.Errorf("%+v", r)
	}
	s.say("w2", rpc.ProfileDone, 1000, "")
	if _, code := s.step(rpc.ProfileLook, "key-0001"); code != "" || s.heard() != "look w2, start w3" {
		t.Error("w3 has no turn")
	}
	s.say("w3", rpc.ProfileDone, 2000, "")
	r, _ := s.step(rpc.ProfileLook, "key-0001")
	if r.State != rpc.ProfileDone || r.Stored || r.Nodes[0].Rate != 400 || r.Nodes[1].Rate != 100 ||
		r.Nodes[2].Rate != 200 {
		t.Fatalf("%+v", r)
	}
	if got := s.served(); got["w1 "] != 0 || len(got) != 3 {
		t.Errorf("before it is kept: %v", got)
	}
	s.store.FailWrites(errors.New("disk full"))
	if _, code := s.step(rpc.ProfileKeep, "key-0001"); code != "not-stored" || len(profile.Table.Rows(s.M.DB)) != 0 {
		t.Errorf("a full disk: %q", code)
	}
	s.store.FailWrites(nil)
	if err := core.Reload(t.Context(), s.Core, time.Now()); err != nil {
		t.Fatal(err)
	}
	again := newStage(t, s.store)
	again.Profilings = s.Profilings
	if r, code := again.step(rpc.ProfileKeep, "key-0001"); code != "" || !r.Stored {
		t.Fatalf("%+v %s", r, code)
	}
	if p := profile.Table.Rows(again.M.DB)["app.web"]; p == nil || p.Load.Body != nil || p.By != "ann" {
		t.Fatalf("stored is %+v", p)
	}
	third := newStage(t, s.store)
	want := map[string]float64{"w1 profile": 400, "w2 profile": 100, "w3 profile": 200}
	if got := third.served(); !same(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if up := third.M.Ups["app.web.1"]; up == nil || up.Serves != 100 || up.ServesBy != rpc.WeightProfile {
		t.Errorf("the root is told %+v", up)
	}
	// A new program, a worker that is new, and one of another kind.
	third.M.FromRoot["app.web"].Spec.Command = []string{"y"}
	reconcile.Effect(third.M)
	third.M.Workers["w4"] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: "w4", Arch: "amd64",
		Capacity: api.Resources{CPU: 4000}}}, time.Now())
	third.M.Workers["w5"] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: "w5", Arch: "arm64",
		Capacity: api.Resources{CPU: 2000}}}, time.Now())
	third.M.Insts["app.web.0"].Worker, third.M.Insts["app.web.1"].Worker = "w4", "w5"
	shown, code := third.step(rpc.ProfileShow, "")
	if code != "" || len(shown.Nodes) != 3 {
		t.Fatalf("%+v %s", shown, code)
	}
	got := map[string]float64{}
	for _, n := range shown.Nodes {
		got[n.Worker+" "+n.From] = n.Rate
	}
	mean := 700.0 / 3
	if want := map[string]float64{"w3 old profile": 200, "w4 same kind": mean, "w5 processors": mean / 2}; !same(got,
		want) || !shown.Nodes[0].Old {
		t.Errorf("%v, want %v", got, want)
	}
	if _, code := third.step(rpc.ProfileForget, ""); code != "" {
		t.Error(code)
	}
	if shown, _ := third.step(rpc.ProfileShow, ""); shown.Stored || len(shown.Nodes) != 0 {
		t.Errorf("%+v", shown)
	}
}

func same(a, b map[string]float64) bool {
	for k, v := range b {
		if d := a[k] - v; d > 1e-9 || d < -1e-9 {
			return false
		}
	}
	return len(a) == len(b)
}

// One worker where most requests fail ends all, and nothing is stored. So does who
// breaks off, or leaves.
func TestProfileFails(t *testing.T) {
	s := newStage(t, bustest.NewMemStore())
	s.step(rpc.ProfileStart, "key-0001")
	s.heard()
	s.say("w2", rpc.ProfileFailed, 3, "20 of 23 requests failed, the last: status 404")
	r, _ := s.step(rpc.ProfileLook, "key-0001")
	if r.State != rpc.ProfileFailed || !strings.Contains(r.Why, "worker w2: 20 of 23") ||
		s.heard() != "end w1, look w1, look w2" {
		t.Errorf("%+v", r)
	}
	if _, code := s.step(rpc.ProfileKeep, "key-0001"); code != "not-measured" || len(profile.Table.Rows(s.M.DB)) != 0 {
		t.Errorf("kept: %q", code)
	}
	s.say("w2", rpc.ProfileRuns, 0, "")
	if _, code := s.step(rpc.ProfileStart, "key-0002"); code != "" {
		t.Fatal(code)
	}
	s.heard()
	if r, code := s.step(rpc.ProfileEnd, "key-0002"); code != "" || r.State != rpc.ProfileFailed ||
		s.heard() != "end w1, end w2" {
		t.Errorf("%+v %s", r, code)
	}
	if _, code := s.step(rpc.ProfileStart, "key-0003"); code != "" {
		t.Fatal(code)
	}
	run := s.Profilings["app.web"]
	run.Asked = run.Asked.Add(-rpc.ProfileIdle) // nobody asks any more
	if _, code := s.step(rpc.ProfileStart, "key-0004"); code != "" {
		t.Errorf("after one that was left: %q", code)
	}
	for name, q := range map[string]*rpc.ProfileAsk{
		"invalid-request": {Do: rpc.ProfileStart, App: "app", Service: "web", Key: "k",
			Load: &rpc.ProfileLoad{For: api.Duration(time.Hour)}},
		"no-http": {Do: rpc.ProfileStart, App: "app", Service: "web", Key: "k",
			Load: &rpc.ProfileLoad{Port: "other"}},
		"no-such-service": {Do: rpc.ProfileStart, App: "app", Service: "db", Key: "k", Load: &rpc.ProfileLoad{}},
		"bad-request":     {Do: rpc.ProfileStart, App: "app", Service: "web", Key: "k"},
		"too-large": {Do: rpc.ProfileStart, App: "app", Service: "web", Key: "k",
			Load: &rpc.ProfileLoad{Body: make([]byte, rpc.MaxProfileBody+1)}},
	} {
		run.Asked, s.Profilings["app.web"] = time.Time{}, run
		_, err := profiler.Profile(t.Context(), s.Core, q, "ann")
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != name {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// What is no more has no profile.
func TestProfilesOfWhatIsGone(t *testing.T) {
	s := newStage(t, bustest.NewMemStore())
	if err := profiler.PutProfile(t.Context(), s.Core, "app.web",
		&profile.Record{V: wire.Version, App: "app", Service: "web"}); err != nil {
		t.Fatal(err)
	}
	s.served()
	if profile.Table.Rows(s.M.DB)["app.web"] == nil {
		t.Fatal("it is gone at once")
	}
	delete(s.M.FromRoot, "app.web")
	reconcile.Effect(s.M)
	if _, err := controller.Pass(t.Context(), s.Core, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	if len(profile.Table.Rows(s.M.DB)) != 0 {
		t.Errorf("%+v", profile.Table.Rows(s.M.DB))
	}
}
