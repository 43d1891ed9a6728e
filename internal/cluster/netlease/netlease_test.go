package netlease

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/wire"
)

// world is a cluster that the root has given a part of the network.
type world struct {
	*testing.T
	m    *state.Model
	now  time.Time
	fail error // of signing
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, m: state.NewModel("edge", true, time.Now()), now: time.Now()}
	tx := w.m.Begin()
	BlocksTable.Put(tx.Rows, "", &wire.ClusterLease{
		V: wire.Version, Cluster: "edge", Index: 3, Prefix: netip.MustParsePrefix("fd01:203:405::/48"),
		Pool: lease.DefaultPool, Services: lease.DefaultServices,
		Numbers: []wire.Block{{From: 100, N: 40}}, Subnets: []wire.Block{{From: 7, N: 3}},
	})
	tx.Done()
	return w
}

func (w *world) worker(name string, rec *state.WorkerRecord) {
	tx := w.m.Begin()
	state.WorkerTable.Put(tx.Rows, name, rec)
	tx.Done()
}

// pass gives what there is to give, and returns the transaction that stored it.
func (w *world) pass() *state.Tx {
	w.Helper()
	tx := w.m.Begin()
	p := Network{Signs: "key"}.Pass(tx)
	p.Lease(w.now)
	p.Sign(func(wire.Lease) (wire.SignedLease, error) { return wire.SignedLease{Sig: []byte("s")}, w.fail },
		slog.New(slog.DiscardHandler))
	if _, err := tx.Encode(); err != nil {
		w.Fatal(err)
	}
	tx.Done()
	return tx
}

func record(name, key string) *state.WorkerRecord {
	return &state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: name}, KeyHash: key}
}

func TestALeaseBelongsToAKey(t *testing.T) {
	w := newWorld(t)
	w.worker("w1", record("w1", "k1"))
	w.worker("w2", record("w2", "k2"))
	w.fail = errors.New("no key")
	if w.pass(); len(ToldTable.Rows(w.m.DB)) != 0 || len(LeaseTable.Rows(w.m.DB)) != 0 {
		t.Fatal("a worker is told what is not signed")
	}
	w.fail = nil
	if tx := w.pass(); !tx.Nudge["w1"] || !tx.Nudge["w2"] {
		t.Error("the workers are not nudged")
	}
	one, two := LeaseTable.Rows(w.m.DB)["w1"].Lease, LeaseTable.Rows(w.m.DB)["w2"].Lease
	if one.Number == two.Number || ToldTable.Rows(w.m.DB)["w1"] == nil {
		t.Errorf("%+v and %+v", one, two)
	}
	if tx := w.pass(); tx.Rows.Len() != 0 {
		t.Error("what is given is given again")
	}
	w.worker("w1", record("w1", "k3")) // another node of that name
	w.pass()
	if w.pass(); LeaseTable.Rows(w.m.DB)["w1"].Number == one.Number {
		t.Error("another node has what the one before had")
	}
	if v := View(w.m); v == nil || v.Given != 2 {
		t.Errorf("%+v", v)
	}
}

// An application that begins here has a number of this cluster's own range, until nothing of
// it is left; one that the root knows has the root's.
func TestNumbers(t *testing.T) {
	w := newWorld(t)
	tx := w.m.Begin()
	p := Network{Signs: "key"}.Pass(tx)
	here, again := p.AppNumber("shop", ""), p.AppNumber("shop", "default")
	if here == 0 || again != here || p.AppNumber("bank", "") == here {
		t.Errorf("%d, then %d", here, again)
	}
	tx.Done()
	if SiteNumber(w.m, "shop") != here {
		t.Error("it is forgotten")
	}
	tx = w.m.Begin()
	state.FromRootTable.Put(tx.Rows, "shop.web", &wire.Share{App: "shop", Service: "web", AppNumber: 7})
	tx.Done()
	tx = w.m.Begin()
	p = Network{Signs: "key"}.Pass(tx)
	if n := p.AppNumber("shop", ""); n != 7 {
		t.Errorf("%d, the root says 7", n)
	}
	state.FromRootTable.Put(tx.Rows, "shop.web", nil)
	tx.Done()
	tx = w.m.Begin()
	Network{Signs: "key"}.Pass(tx).DropNumbers()
	tx.Done()
	if len(NumberTable.Rows(w.m.DB)) != 0 {
		t.Errorf("left: %v", records.SortedKeys(NumberTable.Rows(w.m.DB)))
	}
}

func TestTakeBlocks(t *testing.T) {
	m := state.NewModel("edge", true, time.Now())
	log := slog.New(slog.DiscardHandler)
	tx := m.Begin()
	if err := TakeBlocks(tx, wire.Change{Value: []byte(`{"v":1,"cluster":"other"}`)}, log); err != nil ||
		tx.Rows.Len() != 0 {
		t.Errorf("another cluster's part is taken: %v", err)
	}
	if err := TakeBlocks(tx, wire.Change{Value: []byte(`{`)}, log); err == nil {
		t.Error("no error")
	}
	if err := TakeBlocks(tx, wire.Change{Deleted: true}, log); err != nil || tx.Rows.Len() != 0 {
		t.Errorf("it is taken away: %v", err)
	}
}
