package orders_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/orders"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// web is a model with a share of app.web, and a transaction on it.
func web(change func(*wire.Share)) (*state.Tx, *wire.Share) {
	m := state.NewModel("edge", true, time.Unix(1e9, 0))
	s := &wire.Share{V: wire.Version, App: "app", Service: "web", Revision: 3, Min: 1, Max: 2,
		Spec: &api.Service{Runtime: "process", Command: []string{"x"}, Replicas: api.Replicas{Min: 1, Max: 2}}}
	if change != nil {
		change(s)
	}
	m.Shares["app.web"], m.FromRoot["app.web"] = s, s
	return m.Begin(), s
}

// An instance that starts is its next incarnation, of the program of its share, and its worker
// is given the order for that.
func TestStart(t *testing.T) {
	for name, tc := range map[string]struct {
		was  func(i *wire.Instance)
		want int // incarnation
	}{
		"the first":             {func(*wire.Instance) {}, 1},
		"another":               {func(i *wire.Instance) { i.Incarnation = 4 }, 5},
		"a move was given up":   {func(i *wire.Instance) { i.Incarnation, i.Given = 4, 6 }, 7},
		"another one is moving": {func(i *wire.Instance) { i.Incarnation, i.Moving = 4, &wire.Move{Incarnation: 5} }, 6},
	} {
		tx, s := web(nil)
		i := wire.Instance{ID: "app.web.0", App: "app", Service: "web", Worker: "w1"}
		i.Asleep, i.Restarts = true, 9
		tc.was(&i)
		orders.Start(tx, i, s)
		got, o := tx.Inst("app.web.0"), tx.Ordered("w1.app.web.0")
		if got == nil || got.Incarnation != tc.want || got.Revision != 3 || got.Program != tx.Program(s.Spec) ||
			got.Asleep || got.Restarts != 0 {
			t.Errorf("%s: %+v", name, got)
		}
		if o == nil || o.Incarnation != tc.want || o.Revision != 3 || o.Spec != s.Spec || o.Stop || o.Sleep != nil {
			t.Errorf("%s: its order is %+v", name, o)
		}
	}
}

// A service that scales to zero begins asleep, unless requests ask for it.
func TestSleep(t *testing.T) {
	zero := func(s *wire.Share) { s.Min, s.Spec.Replicas = 0, api.Replicas{Min: 0, Max: 2} }
	for name, tc := range map[string]struct {
		change func(*wire.Share)
		asked  int // instances that the requests ask for
		want   string
	}{
		"it always runs":             {nil, 0, "none"},
		"the root promises one":      {func(s *wire.Share) { zero(s); s.Min = 1 }, 0, "none"},
		"nobody asks":                {zero, 0, "asleep"},
		"requests ask for it":        {zero, 1, "awake"},
		"it runs for other clusters": {func(s *wire.Share) { zero(s); s.Extra = 1 }, 0, "awake"},
	} {
		tx, s := web(tc.change)
		if tc.asked > 0 {
			autoscale.Table.Rows(tx.Model.DB)["app.web"] = &autoscale.Record{Want: tc.asked}
		}
		orders.Start(tx, wire.Instance{ID: "app.web.0", App: "app", Service: "web", Worker: "w1"}, s)
		got := "none"
		if o := tx.Ordered("w1.app.web.0"); o.Sleep != nil {
			got = map[bool]string{true: "awake", false: "asleep"}[o.Sleep.Awake]
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// An instance that moves keeps its order; where it moves to has the one of the next incarnation.
func TestMove(t *testing.T) {
	tx, s := web(nil)
	orders.Start(tx, wire.Instance{ID: "app.web.0", App: "app", Service: "web", Worker: "w1"}, s)
	i := *tx.Inst("app.web.0")
	i.Moving = &wire.Move{Worker: "w2", Incarnation: 2, Revision: 3}
	orders.Move(tx, &i, s)
	if was, next := tx.Ordered("w1.app.web.0"), tx.Ordered("w2.app.web.0"); was == nil || was.Incarnation != 1 ||
		next == nil || next.Incarnation != 2 || next.Stop {
		t.Errorf("%+v and %+v", was, next)
	}
}
