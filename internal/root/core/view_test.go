package core_test

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// create is a change that makes a namespace, and fails with err where that is not nil.
func create(name string, err error) func(*state.Tx) error {
	return func(t *state.Tx) error {
		state.NamespaceTable.Put(t.Rows, name, &record.Namespace{V: wire.Version, Name: name})
		t.Event(event.NamespaceCreated, name, "created")
		return err
	}
}

// told are the subjects of the events that people see.
func told(t *testing.T, c *core.Core) (names []string) {
	t.Helper()
	for _, e := range c.EventRing.After(t.Context(), 0, 0).Events {
		names = append(names, e.Subject)
	}
	return names
}

// A change is there, and people are told of it, once it is stored; one that fails leaves all as
// it was.
func TestUpdate(t *testing.T) {
	store := bustest.NewMemStore()
	c := roottest.NewCore(t, store)
	news := c.News.Listen()
	if err := core.Update(t.Context(), c, time.Now(), create("shop", nil)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-news:
	default:
		t.Error("nobody is told that there is something new")
	}
	refused := errors.New("no")
	if err := core.Update(t.Context(), c, time.Now(), create("bank", refused)); !errors.Is(err, refused) {
		t.Error(err)
	}
	store.FailWrites(errors.New("full"))
	var p *wire.Problem
	if err := core.Update(t.Context(), c, time.Now(), create("lab", nil)); !errors.As(err, &p) || p.Status != 507 {
		t.Error(err)
	}
	if has := c.M.Namespaces; len(has) != 1 || has["shop"] == nil {
		t.Errorf("there are %v", has)
	}
	if names := told(t, c); len(names) != 1 || names[0] != "namespace/shop" {
		t.Errorf("people are told of %v", names)
	}
}

// A change that waited for the model has the time at which it got it.
func TestAChangeIsAsLateAsItWaited(t *testing.T) {
	c := roottest.NewCore(t, bustest.NewMemStore())
	asked := time.Now()
	if err := core.Update(t.Context(), c, asked, func(t *state.Tx) error {
		if !t.Now.After(asked) {
			return errors.New("it is as old as the request")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// After a write of which nobody knows how it ended the model is read again, and is the same one
// for who has it in hand.
func TestAWriteWithoutAnAnswer(t *testing.T) {
	store := bustest.NewMemStore()
	c := roottest.NewCore(t, store)
	m := c.M
	m.Alone = true
	store.LoseNextOutcome(true)
	var p *wire.Problem
	if err := core.Update(t.Context(), c, time.Now(), create("shop", nil)); !errors.As(err, &p) ||
		p.Code != "outcome-unknown" || len(m.Namespaces) != 0 {
		t.Errorf("%v, and there are %v", err, m.Namespaces)
	}
	if err := core.Update(t.Context(), c, time.Now(), create("bank", nil)); err != nil {
		t.Fatal(err)
	}
	if c.M != m || len(m.Namespaces) != 2 || !m.Alone {
		t.Errorf("there are %v, alone: %v", m.Namespaces, m.Alone)
	}
}
