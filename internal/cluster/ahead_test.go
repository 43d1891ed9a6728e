package cluster

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// coreOn is a new process of a cluster on a store, with the keys in dir.
func coreOn(t *testing.T, dir string, store *bus.MemStore) *core {
	t.Helper()
	key, err := seal.Ensure(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := newTestCore(t, store)
	c.key = key
	if c.prover, err = key.Prover(proofOf); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w1", "w2"} {
		if c.m.Workers[name] == nil {
			rec := state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{V: wire.Version, Name: name}}
			b, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Put(t.Context(), state.KeyWorker+name, b); err != nil {
				t.Fatal(err)
			}
			c.m.Workers[name] = state.NewWorker(rec, time.Now())
		}
	}
	return c
}

// first is the first report of a worker after it has connected.
func first(t *testing.T, c *core, name string, have wire.Rev, proof []byte) wire.ReportReply {
	t.Helper()
	reply := c.onReport(t.Context(), name, wire.Report{V: wire.Version, Have: have, Proof: proof, Status: json.RawMessage(`{"v":1,"name":"` + name + `"}`)})
	if reply.Refused != "" {
		t.Fatal(reply.Refused)
	}
	return reply
}

func snapshot(t *testing.T, s bus.Store) bus.Snapshot {
	t.Helper()
	c, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A worker that has seen more than the cluster has leads it into a recovery; without a proof
// it does not.
func TestAWorkerKnowsAnOlderCopy(t *testing.T) {
	dir, store := t.TempDir(), bus.NewMemStore()
	coreOn(t, dir, store)
	store = store.Reopen()
	copied := snapshot(t, store)
	c := coreOn(t, dir, store)
	if _, err := store.Put(t.Context(), state.KeyOrder+"w1.app.web.0", []byte(`{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	page, err := c.desiredOf("w1").Fetch(t.Context(), wire.Fetch{V: wire.Version})
	if err != nil || len(page.Proof) == 0 {
		t.Fatal(err, page)
	}
	c = coreOn(t, dir, store.Reopen())
	if first(t, c, "w1", page.To, page.Proof); c.m.Mark() != nil {
		t.Fatalf("after a restart: %+v", c.m.Mark())
	}
	for name, proof := range map[string][]byte{"no proof": nil, "another's": c.prove("w2")(page.To)} {
		c := coreOn(t, dir, bus.OpenMemStore(copied))
		if reply := first(t, c, "w1", page.To, proof); c.m.Mark() != nil || reply.Want == page.To {
			t.Errorf("%s: %+v", name, c.m.Mark())
		}
	}
	c = coreOn(t, dir, bus.OpenMemStore(copied))
	if reply := first(t, c, "w1", page.To, page.Proof); reply.Want != page.To || !c.m.Silent("w1") || !c.m.Silent("w2") || !c.m.Unasked(state.TheRoot) {
		t.Errorf("it goes on: %+v", c.m.Mark())
	}
	if v := c.m.recoveryView(); v.Ahead != "worker w1" || !strings.Contains(recoveryProblem(v), "older copy") {
		t.Errorf("%+v", v)
	}
	if store := bus.OpenMemStore(snapshot(t, c.store)); coreOn(t, dir, store).m.Mark() == nil {
		t.Error("it has forgotten that after a restart")
	}
}

// So does a root that had heard more of this cluster than it has.
func TestTheRootKnowsAnOlderCopy(t *testing.T) {
	dir, store := t.TempDir(), bus.NewMemStore()
	coreOn(t, dir, store)
	copied := snapshot(t, store)
	rev, err := store.Put(t.Context(), state.KeyUp+"app.web.0", []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	was := store.Timeline().At(rev)
	c := coreOn(t, dir, store.Reopen())
	hears := func() {
		t.Helper()
		c.mu.Lock() // as a pass that stores something
		c.onWas(was)
		c.mu.Unlock()
		if _, err := c.pass(t.Context(), time.Now(), true); err != nil {
			t.Fatal(err)
		}
	}
	if hears(); c.m.Mark() != nil {
		t.Fatalf("after a restart: %+v", c.m.Mark())
	}
	c = coreOn(t, dir, bus.OpenMemStore(copied))
	if hears(); c.m.Mark() == nil || c.m.Mark().Ahead != "the root" || !c.m.Unasked(state.TheRoot) || !c.m.Unasked("w1") {
		t.Errorf("it goes on: %+v", c.m.Mark())
	}
}

// The status says that the root is away as soon as the link is, and not only when the next
// exchange has failed.
func TestALinkThatIsDownIsSaid(t *testing.T) {
	c := newTestCore(t, bus.NewMemStore())
	b := backend{&Cluster{core: c}}
	c.onUpReply(nil)
	s, err := b.Status(t.Context())
	if err != nil || s.Upstream != "connected" || len(s.Problems) > 0 || s.UpstreamAt.IsZero() {
		t.Fatalf("%q %q %v", s.Upstream, s.Problems, err)
	}
	c.up.(*bus.MemConn).SetConnected(false)
	if s, err = b.Status(t.Context()); err != nil || !strings.HasPrefix(s.Upstream, "away") || len(s.Problems) != 1 {
		t.Errorf("%q %q %v", s.Upstream, s.Problems, err)
	}
	// What is changed here from now on counts as since the root was lost, although no
	// exchange has failed yet.
	e := &edit{c: c, m: c.m, app: "shop", now: time.Now(), locals: map[string]*local{"shop.web": nil}}
	if err := e.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.onUpReply(errors.New("no answer"))
	if n := c.sinceAway().Tally.Changes; n != 1 {
		t.Errorf("%d changes since the root was lost, not 1", n)
	}
}
