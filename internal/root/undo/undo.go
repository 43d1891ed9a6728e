package undo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/revisions"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// ReadRevision reads a revision with its descriptor. It is called within core.Do.
func ReadRevision(ctx context.Context, c *core.Core, name string, n uint64) (r apiv1.AppRevision, err error) {
	app := c.M.Apps[name]
	if app == nil {
		return r, edits.NoApp(name)
	}
	if n == app.Revision {
		r = revisions.Current(c.M, app, time.Now())
		r.Current = true
		r.Descriptor, err = revisions.SourceOf(app)
		return r, err
	}
	e, err := c.RecordStore.Get(ctx, revisions.Table.Key(revisions.ID(name, n)))
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return r, wire.Problemf(404, "no-such-revision", "verge rollout history "+name, "there is no such revision",
			"revision %d of %s is not kept: the last %d are", n, name, wire.MaxRevisions)
	case err != nil:
		return r, fmt.Errorf("reading revision %d of %s: %w", n, name, err)
	}
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return r, fmt.Errorf("stored revision %d of %s: %w", n, name, err)
	}
	return r, nil
}

// To makes of an application what a revision was, the whole of it or one service, and says
// in t what it did. It returns nil where that changes nothing.
func To(ctx context.Context, c *core.Core, t *state.Tx, who access.Who, old *record.Application, service string,
	to uint64, by, why string, now time.Time) (app *record.Application, res apiv1.ApplyResult, err error) {
	rev, err := ReadRevision(ctx, c, old.Name, to)
	if err != nil {
		return nil, res, err
	}
	spec, _, err := descriptor.Parse("descriptor", []byte(rev.Descriptor))
	if err != nil {
		return nil, res, wire.Problemf(409, "not-applicable",
			"verge rollout history "+old.Name+" --revision "+strconv.FormatUint(to,
				10)+", and apply it with the necessary changes",
			"that revision cannot be brought back as it is", "%v", err)
	}
	source := rev.Descriptor
	if service != "" {
		if source, spec, err = revisions.WithService(old.Spec, spec, service, to); err != nil {
			return nil, res, err
		}
	}
	app, res, err = edits.Accept(t.Model, who, spec, []byte(source), now)
	if err != nil || res.Change == "unchanged" {
		return nil, res, err
	}
	app.By, app.Why = by, fmt.Sprintf("undo to revision %d", to)
	if service != "" {
		app.Why = fmt.Sprintf("undo of %s to revision %d", service, to)
	}
	if why != "" {
		app.Why += ": " + state.Cut(why, state.MaxWords)
	}
	t.Event(event.ApplicationApplied, app.Name, "%s%s, revision %d", app.Why, edits.ByWhom(by), res.Revision)
	return app, res, nil
}

// verdicts are what passes have found of services. A rehearsal finds nothing.
type verdicts struct {
	// since when they hold without a note of it, by application.service.revision.
	since map[string]time.Time
	// stuck have failed with nothing to go back to, by application.service, with the revision
	// of which that is so.
	stuck map[string]uint64
}

var memory = table.Remember(&state.Schema, table.MemoryRules[verdicts]{})

// NoteHeld notes what has held for long enough. It reports whether something holds that is
// to be noted later. It is called within core.Do.
func NoteHeld(ctx context.Context, c *core.Core, now time.Time) (waits bool) {
	since := map[string]time.Time{}
	t := c.M.Begin()
	for _, name := range records.SortedKeys(c.M.Apps) {
		app := c.M.Apps[name]
		if !app.Deleting.IsZero() || revisions.AllHeld(app) {
			continue
		}
		held := maps.Clone(app.Held)
		for _, svc := range app.Spec.ServiceNames() {
			if held[svc] || !revisions.MayHold(c.M, app, svc) || !revisions.Holds(c.M, app, svc) ||
				revisions.Failing(c.M, app, svc, now) {
				continue
			}
			key := name + "." + svc + "." + strconv.FormatUint(app.Revision, 10)
			first, ok := memory.Of(c.M.DB).since[key]
			if !ok || now.Before(first) {
				first = now
			}
			if now.Sub(first) < revisions.HeldAfter {
				since[key], waits = first, true
				continue
			}
			if held == nil { // of a version that did not note it
				held = revisions.Carried(nil, app)
			}
			held[svc] = true
		}
		if maps.Equal(held, app.Held) {
			continue
		}
		next := *app
		next.Held = held
		if err := edits.Storable(c.M, &next); err != nil {
			c.Logger.Warn("noting that a revision holds", "application", name, "error", err)
			continue // of the others it can be noted
		}
		t.Apps[name] = &next
	}
	memory.Of(c.M.DB).since = since
	if len(t.Apps) == 0 {
		return waits
	}
	if _, left, err := c.Keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		c.Logger.Warn("noting that revisions hold", "error", cmp.Or(err, left))
	}
	return waits
}

// LastHeld is the last revision before that of app that held and was other than it is; or,
// where a service is named, in which that service held and was other.
func LastHeld(ctx context.Context, c *core.Core, app *record.Application, service string) (uint64, error) {
	other := false
	for _, r := range slices.Backward(revisions.Memory(c.M).History[app.Name]) {
		rev, err := ReadRevision(ctx, c, app.Name, r.Revision)
		if err != nil {
			return 0, err
		}
		spec, _, err := descriptor.Parse("descriptor", []byte(rev.Descriptor))
		if err != nil || service != "" && spec.Services[service] == nil {
			continue
		}
		if service == "" && records.Same(spec, app.Spec) || service != "" &&
			records.Same(spec.Services[service], app.Spec.Services[service]) {
			continue
		}
		if other = true; r.HasHeld(service) {
			return r.Revision, nil
		}
	}
	what := app.Name
	if service != "" {
		what += "." + service
	}
	if other {
		return 0, wire.Problemf(409, "no-revision-held",
			"verge rollout history "+app.Name+", then: verge rollout undo "+app.Name+" --to REVISION",
			"there is no good revision to go back to",
			"none of the other revisions of %s that are kept is known to be good", what)
	}
	return 0, wire.Problemf(409, "no-earlier-revision", "verge rollout history "+app.Name,
		"there is nothing to bring back", "no earlier revision of %s that differs from this one is kept", what)
}

// RollBack undoes what has failed where the descriptor asks for that. It is called within core.Do.
func RollBack(ctx context.Context, c *core.Core, now time.Time) {
	if recovery.Holding(c.M, now) {
		return
	}
	stuck := map[string]uint64{}
	defer func() { memory.Of(c.M.DB).stuck = stuck }()
	for _, name := range records.SortedKeys(c.M.Apps) {
		app := c.M.Apps[name]
		if !app.Deleting.IsZero() {
			continue
		}
		for _, svc := range app.Spec.ServiceNames() {
			spec := app.Spec.Services[svc]
			if spec.Rollout.OnFailure != "rollback" || app.RolledBack[svc] {
				continue
			}
			r := rollouts.Progress(c.M, app, svc)
			if r.Phase != wire.RolloutFailed {
				continue
			}
			key := name + "." + svc
			if memory.Of(c.M.DB).stuck[key] == app.Revision {
				stuck[key] = app.Revision // the revisions before it are the same
				continue
			}
			to, err := LastHeld(ctx, c, app, svc)
			if p := new(wire.Problem); errors.As(err, &p) {
				stuck[key] = app.Revision
			}
			if err != nil {
				c.Logger.Debug("a rollout that failed is not undone", "application", name, "service", svc, "error", err)
				continue // verge rollout status says that it has failed
			}
			t := c.M.Begin()
			next, _, err := To(ctx, c, t, access.Who{Name: wire.ByRollback, Admin: true}, app, svc, to,
				wire.ByRollback, "its rollout failed, "+r.Why, now)
			if err == nil {
				if next == nil {
					same := *app
					next = &same
				}
				if next.RolledBack = maps.Clone(next.RolledBack); next.RolledBack == nil {
					next.RolledBack = map[string]bool{}
				}
				next.RolledBack[svc] = true // what it is brought back to is not undone in its turn
				err = edits.PutApp(t, next)
			}
			if err == nil {
				err = core.Store(ctx, c, t, now)
			}
			if err != nil {
				c.Logger.Warn("undoing a rollout that failed", "application", name, "service", svc, "error", err)
			}
			return // the other services: in the pass that this causes
		}
	}
}
