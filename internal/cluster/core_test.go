package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// newCore is c with what its store holds.
func newCore(ctx context.Context, c *core, details bool, now time.Time) (*core, error) {
	return c, c.init(ctx, details, now)
}

// newTestCore is a cluster on an in-memory bus with one registered worker.
func newTestCore(t testing.TB, store *bus.MemStore) *core {
	t.Helper()
	hub := bus.NewMem()
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	c, err := newCore(context.Background(), &core{
		name: "edge", log: slog.New(slog.DiscardHandler), events: obs.NewEvents(time.Now(), 0), store: store,
		local: hub.Conn("local", all), up: hub.Conn("up", all),
	}, true, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stopAsking(); c.local.Close(); c.up.Close() })
	return c
}

func share(t *testing.T, n int) wire.Change {
	t.Helper()
	b, err := json.Marshal(wire.Share{
		V: wire.Version, App: "app", Service: "web", Revision: 1, Min: n, Max: n, Ordinals: []wire.Span{{To: n}},
		Spec: &api.Service{Runtime: "process", Command: []string{"x"}, Scheduler: "rom", Spread: "soft", Resources: api.Resources{CPU: 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Change{Key: "share.app.web", Value: b}
}

// A write of which nobody knows whether it is stored must not leave memory and
// disk apart, whichever way it went.
func TestAnUnknownOutcomeIsFoundOut(t *testing.T) {
	for _, written := range []bool{true, false} {
		ctx := context.Background()
		store := bus.NewMemStore()
		c := newTestCore(t, store)
		store.LoseNextOutcome(written)
		d := (*rootDesired)(c)
		to := wire.Rev{Inc: "root", N: 7}
		if err := d.Take(ctx, true, []wire.Change{share(t, 2)}, to, nil); !errors.Is(err, bus.ErrUnknownOutcome) {
			t.Fatalf("written %v: %v, want an unknown outcome", written, err)
		}
		if _, err := c.pass(ctx, time.Now(), true); err != nil {
			t.Fatal(err)
		}
		if got := d.Have() == to; got != written {
			t.Errorf("written %v: have %v", written, d.Have())
		}
		if got := c.m.Shares["app.web"] != nil; got != written {
			t.Errorf("written %v: the share is known: %v", written, got)
		}
	}
}

// What cannot be stored is neither acted on nor acknowledged.
func TestAFullDiskChangesNothing(t *testing.T) {
	ctx := context.Background()
	store := bus.NewMemStore()
	c := newTestCore(t, store)
	store.FailWrites(errors.New("disk full"))
	d := (*rootDesired)(c)
	if err := d.Take(ctx, true, []wire.Change{share(t, 1)}, wire.Rev{Inc: "root", N: 7}, nil); err == nil {
		t.Fatal("taken without being stored")
	}
	if len(c.m.Shares) != 0 || !d.Have().IsZero() {
		t.Errorf("have %v, shares %v", d.Have(), c.m.Shares)
	}
	store.FailWrites(nil)
	if err := d.Take(ctx, true, []wire.Change{share(t, 1)}, wire.Rev{Inc: "root", N: 7}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.pass(ctx, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	if c.m.Insts["app.web.0"] == nil {
		t.Error("the instance was not made after the disk was free again")
	}
}

// Where services are reached on a worker is the worker's to say; whoever asks
// hears who does not know.
func TestEntriesAreAskedOfTheWorker(t *testing.T) {
	ctx := context.Background()
	c := newTestCore(t, bus.NewMemStore())
	c.m.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	b := backend{&Cluster{core: c}}
	code := func(cluster, name, want string) {
		t.Helper()
		_, err := b.Entries(ctx, cluster, name)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != want {
			t.Errorf("%s/%s: %v, want %s", cluster, name, err, want)
		}
	}
	code("fog", "w1", "elsewhere")
	code("edge", "w2", "no-such-worker")
	code("edge", "w1", "worker-away")
	lower := exchange.WorkerSubjects("w1")
	stop, err := c.local.Subscribe(lower.Ask, func(_ context.Context, m bus.Msg) {
		if err := m.Respond([]byte(`{"v":1,"d":[{"app":"app","service":"web","port":"http","addr":"127.0.0.1:20000"}]}`)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	want := wire.EntryView{App: "app", Service: "web", Port: "http", Addr: "127.0.0.1:20000"}
	if list, err := b.Entries(ctx, "edge", "w1"); err != nil || len(list) != 1 || list[0] != want {
		t.Errorf("got %v, %v", list, err)
	}
	ask := wire.Ask{What: "entries", Worker: "w1"}
	got, err := c.answer(ctx, ask)
	if list, ok := got.([]wire.EntryView); err != nil || !ok || len(list) != 1 || list[0] != want {
		t.Errorf("a root that is told details gets %v, %v", got, err)
	}
	c.m.Details = false
	if got, err := c.answer(ctx, ask); err == nil {
		t.Errorf("a root that is not told details gets %v", got)
	}
}

func TestReportsOfStrangersAreRefused(t *testing.T) {
	c := newTestCore(t, bus.NewMemStore())
	if r := c.onReport(context.Background(), "nobody", wire.Report{V: wire.Version}); r.Refused == "" {
		t.Error("a worker that is not registered was heard")
	}
}
