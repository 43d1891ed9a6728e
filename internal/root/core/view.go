package core

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Do runs f with the model, which nobody else uses meanwhile. It is for what is known beside
// records, and for several transactions that belong together.
func Do(c *Core, f func(m *state.Model)) { c.Keeper.Do(func() { f(c.M) }) }

// View is Do with what f returns.
func View[T any](c *Core, f func(m *state.Model) T) (v T) {
	c.Keeper.Do(func() { v = f(c.M) })
	return v
}

// View2 is View of two values.
func View2[T, U any](c *Core, f func(m *state.Model) (T, U)) (v T, w U) {
	c.Keeper.Do(func() { v, w = f(c.M) })
	return v, w
}

// Update stores what change does in one transaction, as Store does. The transaction's time is
// now, when it was asked for, and what it waited for the model. If change or the store fails,
// nothing has changed.
func Update(ctx context.Context, c *Core, now time.Time, change func(t *state.Tx) error) error {
	asked := time.Now()
	return View(c, func(m *state.Model) error {
		now := now.Add(time.Since(asked)) // no earlier than what others stored meanwhile
		if err := Reload(ctx, c, now); err != nil {
			return Unstored(err)
		}
		t := m.Begin()
		t.Now = now
		if err := change(t); err != nil || t.Rows.Len()+len(t.Events) == 0 {
			return err
		}
		return Store(ctx, c, t, now)
	})
}

// Store stores a transaction as a whole, then tells people and hooks what it says, and wakes
// the loop. It is called within Do. Its errors are for people.
func Store(ctx context.Context, c *Core, t *state.Tx, now time.Time) error {
	if err := c.Keeper.Whole(ctx, t); err != nil {
		return Unstored(err)
	}
	if len(state.GoneTable.Changes(t.Rows)) > 0 {
		Refuse(c)
	}
	for name, app := range t.Apps {
		if app != nil {
			c.EventRing.Place(name, wire.NamespaceOf(app.Spec))
		}
	}
	for _, n := range t.Notices {
		c.HookKeeper.Tell(n)
	}
	c.EventRing.Own(now, t.Events...)
	c.News.Ring()
	loop.Poke(c.Wake)
	return nil
}

// Unstored is the error of a change that could not be stored.
func Unstored(err error) error {
	return records.Unstored(err, "look (verge get applications) before you try again", "the disk of the root")
}
