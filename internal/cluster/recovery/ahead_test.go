package recovery_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/recovery"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// coreOn is a new process of a cluster on a store, with the keys in dir.
func coreOn(t *testing.T, dir string, store *bustest.MemStore) *core.Core {
	t.Helper()
	key, err := seal.Ensure(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := clustertest.NewCore(t, store)
	c.Key = key
	if c.Prover, err = key.Prover(reconcile.ProofOf); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w1", "w2"} {
		if c.M.Workers[name] == nil {
			rec := state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{V: wire.Version, Name: name}}
			b, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Put(t.Context(), state.KeyWorker+name, b); err != nil {
				t.Fatal(err)
			}
			c.M.Workers[name] = state.NewWorker(rec, time.Now())
		}
	}
	return c
}

// first is the first report of a worker after it has connected.
func first(t *testing.T, c *core.Core, name string, have wire.Rev, proof []byte) wire.ReportReply {
	t.Helper()
	reply := workers.OnReport(t.Context(), c, name,
		wire.Report{V: wire.Version, Have: have, Proof: proof,
			Status: json.RawMessage(`{"v":1,"name":"` + name + `"}`)})
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
	dir, store := t.TempDir(), bustest.NewMemStore()
	coreOn(t, dir, store)
	store = store.Reopen()
	copied := snapshot(t, store)
	c := coreOn(t, dir, store)
	if _, err := store.Put(t.Context(), state.KeyOrder+"w1.app.web.0", []byte(`{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	page, err := workers.DesiredOf(c, "w1").Fetch(t.Context(), wire.Fetch{V: wire.Version})
	if err != nil || len(page.Proof) == 0 {
		t.Fatal(err, page)
	}
	c = coreOn(t, dir, store.Reopen())
	if first(t, c, "w1", page.To, page.Proof); c.M.Mark() != nil {
		t.Fatalf("after a restart: %+v", c.M.Mark())
	}
	for name, proof := range map[string][]byte{"no proof": nil, "another's": uplink.Prove(c, "w2")(page.To)} {
		c := coreOn(t, dir, bustest.OpenMemStore(copied))
		if reply := first(t, c, "w1", page.To, proof); c.M.Mark() != nil || reply.Want == page.To {
			t.Errorf("%s: %+v", name, c.M.Mark())
		}
	}
	c = coreOn(t, dir, bustest.OpenMemStore(copied))
	if reply := first(t, c, "w1", page.To, page.Proof); reply.Want != page.To || !c.M.Silent("w1") ||
		!c.M.Silent("w2") || !c.M.Unasked(state.TheRoot) {
		t.Errorf("it goes on: %+v", c.M.Mark())
	}
	if v := recovery.View(c.M); v.Ahead != "worker w1" || !strings.Contains(recovery.Problem(v), "older copy") {
		t.Errorf("%+v", v)
	}
	if store := bustest.OpenMemStore(snapshot(t, c.RecordStore)); coreOn(t, dir, store).M.Mark() == nil {
		t.Error("it has forgotten that after a restart")
	}
}

// So does a root that had heard more of this cluster than it has.
func TestTheRootKnowsAnOlderCopy(t *testing.T) {
	dir, store := t.TempDir(), bustest.NewMemStore()
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
		core.Do(c, func(*state.Model) {
			uplink.OnWas(c, was)
		})
		if _, err := controller.Pass(t.Context(), c, time.Now(), true); err != nil {
			t.Fatal(err)
		}
	}
	if hears(); c.M.Mark() != nil {
		t.Fatalf("after a restart: %+v", c.M.Mark())
	}
	c = coreOn(t, dir, bustest.OpenMemStore(copied))
	if hears(); c.M.Mark() == nil || c.M.Mark().Ahead != "the root" || !c.M.Unasked(state.TheRoot) ||
		!c.M.Unasked("w1") {
		t.Errorf("it goes on: %+v", c.M.Mark())
	}
}
