package core

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
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

// Update stores what change does in one transaction, then tells people its events and wakes the
// loop. now is when it was asked for; the time of the transaction is later by its wait for the
// model. If change or the store fails, nothing has changed.
func Update(ctx context.Context, c *Core, now time.Time, change func(t *state.Tx) error) error {
	asked := time.Now()
	return View(c, func(m *state.Model) error {
		now := now.Add(time.Since(asked)) // no earlier than what others stored meanwhile
		if err := Reload(ctx, c, now); err != nil {
			return Unstored(err)
		}
		t := m.Begin()
		t.Now = now
		if err := change(t); err != nil || t.Rows.Len() == 0 {
			return err
		}
		if err := c.Keeper.Whole(ctx, t); err != nil {
			return Unstored(err)
		}
		c.EventRing.Own(now, t.Events...)
		c.News.Ring()
		loop.Poke(c.Wake)
		return nil
	})
}

// Unstored is the error of a change that could not be stored.
func Unstored(err error) error {
	return records.Unstored(err, "look whether it was done, then try again", "the disk of the cluster")
}
