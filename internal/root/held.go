package root

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// Whether a revision held is noted with it, so that an undo goes back to one that worked.

// heldAfter is how long a service must hold before that is noted: a program that ends soon
// after its start is ready for a moment.
const heldAfter = 10 * time.Second

// carried is what is known of the services of an application when a revision of it begins:
// those that are as they were have held if they had.
func carried(old, next *wire.Application) map[string]bool {
	out := make(map[string]bool, len(next.Spec.Services))
	for name, s := range next.Spec.Services {
		out[name] = old != nil && old.Held[name] && records.Same(old.Spec.Services[name], s)
	}
	return out
}

// holds says whether a service is as applied now.
func (m *model) holds(app *wire.Application, svc string) bool {
	v := m.serviceView(app, svc)
	return v.Message == "" && v.Rollout == ""
}

// allHeld says whether it is noted of each service of an application that it has held.
func allHeld(app *wire.Application) bool {
	for _, held := range app.Held {
		if !held {
			return false
		}
	}
	return len(app.Held) == len(app.Spec.Services)
}

// mayHold says whether as many instances of a service as must be there may count, at the cost
// of looking at them: holds costs more.
func (m *model) mayHold(app *wire.Application, svc string) bool {
	spec, n := app.Spec.Services[svc], 0
	if spec.Job != nil {
		return true
	}
	for _, id := range m.byService()[app.Name+"."+svc] {
		i := m.insts[id]
		c := m.clusters[i.Cluster]
		if i.Draining || c == nil || c.seen[id] == nil {
			continue
		}
		if rep := c.seen[id]; rep.Ready || rep.Asleep || rep.State == wire.Terminated {
			n++
		}
	}
	return n >= spec.Replicas.Min
}

// failing says whether instances of a service, as applied, fail: whatever it was before, it
// is not a program to go back to.
func (m *model) failing(app *wire.Application, svc string, now time.Time) bool {
	if app.Spec.Services[svc].Job != nil {
		return false // its message says what became of it
	}
	for _, i := range m.reads().of(app.Name, svc) {
		cur := m.merged(i)
		if i.Draining || cur.Revision != app.Revision {
			continue
		}
		if e := cur.LastExit; e != nil && !life.Clean(*e) && now.Sub(e.At).Abs() < life.Calm {
			return true
		}
	}
	return false
}

// judged says of each service of an application whether it has held as it is; nil if
// nobody noted it.
func (m *model) judged(app *wire.Application, now time.Time) map[string]bool {
	if app.Held == nil {
		return nil
	}
	out := make(map[string]bool, len(app.Held))
	for name, held := range app.Held {
		out[name] = app.Spec.Services[name] != nil && (held || m.holds(app, name)) && !m.failing(app, name, now)
	}
	return out
}

// noteHeld notes what has held for long enough. It reports whether something holds that is
// to be noted later. The mutex is held.
func (c *core) noteHeld(ctx context.Context, now time.Time) (waits bool) {
	since := map[string]time.Time{}
	t := c.m.begin()
	for _, name := range records.SortedKeys(c.m.apps) {
		app := c.m.apps[name]
		if !app.Deleting.IsZero() || allHeld(app) {
			continue
		}
		held := maps.Clone(app.Held)
		for _, svc := range app.Spec.ServiceNames() {
			if held[svc] || !c.m.mayHold(app, svc) || !c.m.holds(app, svc) || c.m.failing(app, svc, now) {
				continue
			}
			key := name + "." + svc + "." + strconv.FormatUint(app.Revision, 10)
			first, ok := c.heldSince[key]
			if !ok || now.Before(first) {
				first = now
			}
			if now.Sub(first) < heldAfter {
				since[key], waits = first, true
				continue
			}
			if held == nil { // of a version that did not note it
				held = carried(nil, app)
			}
			held[svc] = true
		}
		if maps.Equal(held, app.Held) {
			continue
		}
		next := *app
		next.Held = held
		if err := c.m.storable(&next); err != nil {
			c.log.Warn("noting that a revision holds", "application", name, "error", err)
			continue // of the others it can be noted
		}
		t.apps[name] = &next
	}
	c.heldSince = since
	if len(t.apps) == 0 {
		return waits
	}
	if _, left, err := c.keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		c.log.Warn("noting that revisions hold", "error", cmp.Or(err, left))
	}
	return waits
}

// lastHeld is the last revision before that of app that held and was other than it is; or,
// where a service is named, in which that service held and was other.
func (c *core) lastHeld(ctx context.Context, app *wire.Application, service string) (uint64, error) {
	other := false
	for _, r := range slices.Backward(c.m.history[app.Name]) {
		rev, err := c.readRevision(ctx, app.Name, r.Revision)
		if err != nil {
			return 0, err
		}
		spec, _, err := descriptor.Parse("descriptor", []byte(rev.Descriptor))
		if err != nil || service != "" && spec.Services[service] == nil {
			continue
		}
		if service == "" && records.Same(spec, app.Spec) || service != "" && records.Same(spec.Services[service], app.Spec.Services[service]) {
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
		return 0, wire.Problemf(409, "no-revision-held", "verge rollout history "+app.Name+", then: verge rollout undo "+app.Name+" --to REVISION",
			"there is no revision to go back to that held", "of none of the revisions of %s that are kept and are other than this one is known that it held", what)
	}
	return 0, wire.Problemf(409, "no-earlier-revision", "verge rollout history "+app.Name, "there is nothing to bring back", "no earlier revision of %s is kept that is other than this one", what)
}
