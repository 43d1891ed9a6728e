package core

import (
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// fill sets a field of a Process to something that is not its zero value.
func fill(t *testing.T, f reflect.Value) {
	t.Helper()
	switch x := f.Addr().Interface().(type) {
	case *string:
		*x = "x"
	case *bool:
		*x = true
	case *time.Time:
		*x = time.Now()
	case *wire.Site:
		x.Operator = "x"
	case *map[string]wire.Rev:
		*x = map[string]wire.Rev{"w1": {Inc: "x"}}
	case *func(string) string:
		*x = func(string) string { return "x" }
	default:
		t.Fatalf("fill in a value for %T", x)
	}
}

// After a write of which nobody knows how it ended the model is another one, which knows all
// that the process knew.
func TestAReloadKeepsWhatTheProcessKnows(t *testing.T) {
	store := bustest.NewMemStore()
	c := &Core{ClusterName: "edge", Logger: slog.New(slog.DiscardHandler), RecordStore: store,
		M: state.NewModel("edge", true, time.Now())}
	c.Keeper.Store = store
	v := reflect.ValueOf(&c.M.Process).Elem()
	for n := range v.NumField() {
		fill(t, v.Field(n))
	}
	for _, name := range []string{"w1", "w2"} {
		tx := c.M.Begin()
		state.WorkerTable.Put(tx.Rows, name, &state.WorkerRecord{Info: wire.WorkerInfo{Name: name}})
		if err := c.Keeper.Whole(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	w1 := c.M.Workers["w1"]
	w1.EverHeard = true
	was := *c.M
	v = reflect.ValueOf(&was.Process).Elem()
	delete(c.M.Workers, "w2")
	_ = c.Keeper.Wrote(errors.New("no answer"))
	if err := Reload(t.Context(), c, time.Now()); err != nil {
		t.Fatal(err)
	}
	if c.M.DB == was.DB {
		t.Fatal("it was not read again")
	}
	now := reflect.ValueOf(&c.M.Process).Elem()
	for n := range v.NumField() {
		a, b := v.Field(n), now.Field(n)
		if a.Kind() == reflect.Func && a.Pointer() == b.Pointer() {
			continue
		}
		if a.IsZero() || !reflect.DeepEqual(a.Interface(), b.Interface()) {
			t.Errorf("%s was %v and is %v", v.Type().Field(n).Name, a, b)
		}
	}
	if c.M.Workers["w1"] != w1 || c.M.Workers["w2"] == nil {
		t.Errorf("the workers are %v", c.M.Workers)
	}
}

// An Update is stored before anybody hears of it, and what fails changes nothing.
func TestUpdate(t *testing.T) {
	store := bustest.NewMemStore()
	c := &Core{ClusterName: "edge", Logger: slog.New(slog.DiscardHandler), RecordStore: store,
		EventRing: obs.NewEvents(time.Now(), 0, "cluster/edge"), M: state.NewModel("edge", true, time.Now())}
	c.Keeper.Store, c.Wake = store, make(chan struct{}, 1)
	put := func(err error) error {
		return Update(t.Context(), c, time.Now(), func(tx *state.Tx) error {
			state.WorkerTable.Put(tx.Rows, "w1", &state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}})
			tx.Event(event.WorkerJoined, "edge/w1", "joined")
			return err
		})
	}
	check := func(what string, err error, code string, workers, events int) {
		t.Helper()
		var p *wire.Problem
		if errors.As(err, &p); code != "" && (p == nil || p.Code != code) || code == "" && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		n := View(c, func(m *state.Model) int { return len(m.Workers) })
		page := c.EventRing.After(t.Context(), 0, 0)
		if n != workers || len(page.Events) != events || len(c.Wake) != events {
			t.Errorf("%s: %d workers, %d events, woken: %d", what, n, len(page.Events), len(c.Wake))
		}
	}
	check("refused", put(wire.Problemf(409, "no", "", "no", "no")), "no", 0, 0)
	store.FailWrites(errors.New("disk full"))
	check("a full disk", put(nil), "not-stored", 0, 0)
	store.FailWrites(nil)
	check("nothing", Update(t.Context(), c, time.Now(), func(*state.Tx) error { return nil }), "", 0, 0)
	check("stored", put(nil), "", 1, 1)
}
