package root

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// putApp stores an application and makes it the one that counts. The mutex is
// held. Its errors are for people.
func (c *core) putApp(ctx context.Context, app *wire.Application) error {
	if old := c.m.apps[app.Name]; old == nil || old.Revision != app.Revision {
		app.Held = carried(old, app)
	}
	if err := c.m.storable(app); err != nil {
		return err
	}
	t, old := c.m.begin(), c.m.apps[app.Name]
	if err := t.retire(app); err != nil {
		return err
	}
	// What it was is kept in the same write in which it becomes something else.
	appTable.Put(t.rows, app.Name, app)
	if err := c.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	c.tellApp(app, old)
	c.events.Place(app.Name, wire.NamespaceOf(app.Spec))
	loop.Poke(c.wake)
	return nil
}

// storable says why an application may not be stored; nil if it may.
func (m *model) storable(app *wire.Application) error {
	if err := m.fits(app); err != nil {
		return err
	}
	data, err := json.Marshal(app)
	if err != nil {
		return fmt.Errorf("encoding the application: %w", err)
	}
	if len(data) > bus.MaxValueBytes {
		return wire.Problemf(413, "too-large", "split it into several applications", "the application is too large to be stored", "%d bytes, at most %d", len(data), bus.MaxValueBytes)
	}
	return nil
}

// changeable is an application that something is to be done to. The mutex is held.
func (c *core) changeable(ctx context.Context, name string, now time.Time) (*wire.Application, error) {
	if err := c.reload(ctx, now); err != nil {
		return nil, unstored(err)
	}
	app := c.m.apps[name]
	switch {
	case app == nil:
		return nil, noApp(name)
	case !app.Deleting.IsZero():
		return nil, beingDeleted(app)
	}
	return app, nil
}

func beingDeleted(app *wire.Application) error {
	return wire.Problemf(409, "deleting", "wait until it is gone: verge get applications", "the application is being deleted", "%s, since %s", app.Name, app.Deleting.Format(time.RFC3339))
}

// Scale implements rest.Backend: the descriptor itself is changed, so that the
// number is as durable as if it had been written there.
func (b backend) Scale(ctx context.Context, name, service string, replicas int) (wire.ApplyResult, error) {
	warnings, err := b.gate(ctx, wire.GateScale, name, fmt.Sprintf("%s is to have %s", service, wire.Count(replicas, "replica")))
	if err != nil {
		return wire.ApplyResult{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	old, err := b.changeable(ctx, name, now)
	if err != nil {
		return wire.ApplyResult{}, err
	}
	if s := old.Spec.Services[service]; s != nil && s.Replicas.Elastic() {
		return wire.ApplyResult{}, wire.ScalesItself(name, service, s.Replicas)
	}
	source, spec, err := descriptor.Scaled([]byte(old.Source), old.Spec, service, replicas)
	if err != nil {
		return wire.ApplyResult{}, wire.Problemf(422, "cannot-scale", "verge get services --app "+name, "it cannot be scaled to that", "%v", err)
	}
	res := wire.ApplyResult{Name: name, Revision: old.Revision, Change: "unchanged", Warnings: warnings}
	if records.Same(old.Spec, spec) {
		return res, nil
	}
	next := *old
	next.Source, next.Spec, next.Revision, next.Applied = string(source), spec, old.Revision+1, now
	next.Changes += changes(old.Spec, spec)
	next.By, next.Why, next.Changed = rest.Caller(ctx), "verge scale", changed(old.Spec, spec)
	next.Scaled, next.Unclaimed = maps.Clone(old.Scaled), nil
	if next.Scaled == nil {
		next.Scaled = map[string]wire.Scaled{}
	}
	next.Scaled[service] = wire.Scaled{Replicas: replicas, By: rest.Caller(ctx), At: now}
	if err := b.putApp(ctx, &next); err != nil {
		return wire.ApplyResult{}, err
	}
	res.Revision, res.Change, res.Changes = next.Revision, "updated", 1
	b.events.Add(now, tier, "application/"+name, fmt.Sprintf("%s scaled from %d to %d by %s, revision %d",
		service, old.Spec.Services[service].Replicas.Min, replicas, rest.Caller(ctx), next.Revision))
	return res, nil
}

// takeScaled says which numbers, set by commands, the descriptor of app overrides,
// and keeps the note of the others. It simply wins, as users of kubectl expect.
func takeScaled(app, old *wire.Application) (warnings []string) {
	for _, name := range records.SortedKeys(old.Scaled) {
		was, svc := old.Scaled[name], app.Spec.Services[name]
		switch {
		case svc == nil:
		case svc.Replicas.Min == was.Replicas:
			if app.Scaled == nil {
				app.Scaled = map[string]wire.Scaled{}
			}
			app.Scaled[name] = was
		default:
			warnings = append(warnings, fmt.Sprintf("services.%s.replicas: %d, set by verge scale (%s, %s), becomes %d again",
				name, was.Replicas, was.By, was.At.Format(time.RFC3339), svc.Replicas.Min))
		}
	}
	return warnings
}
