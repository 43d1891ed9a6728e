package revisions

import (
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
)

// Whether a revision held is noted with it, so that an undo goes back to one that worked.

// HeldAfter is how long a service must hold before that is noted: a program that ends soon
// after its start is ready for a moment.
const HeldAfter = 10 * time.Second

// Carried is what is known of the services of an application when a revision of it begins:
// those that are as they were have held if they had.
func Carried(old, next *record.Application) map[string]bool {
	out := make(map[string]bool, len(next.Spec.Services))
	for name, s := range next.Spec.Services {
		out[name] = old != nil && old.Held[name] && records.Same(old.Spec.Services[name], s)
	}
	return out
}

// Holds says whether a service is as applied now.
func Holds(m *state.Model, app *record.Application, svc string) bool {
	v := status.Service(m, app, svc)
	return v.Message == "" && v.Rollout == ""
}

// AllHeld says whether it is noted of each service of an application that it has held.
func AllHeld(app *record.Application) bool {
	for _, held := range app.Held {
		if !held {
			return false
		}
	}
	return len(app.Held) == len(app.Spec.Services)
}

// MayHold says whether as many instances of a service as must be there may count, at the cost
// of looking at them: holds costs more.
func MayHold(m *state.Model, app *record.Application, svc string) bool {
	spec, n := app.Spec.Services[svc], 0
	if spec.Job != nil {
		return true
	}
	for _, id := range m.ByService()[app.Name+"."+svc] {
		i := m.Insts[id]
		c := m.Clusters[i.Cluster]
		if i.Draining || c == nil || c.Seen[id] == nil {
			continue
		}
		if rep := c.Seen[id]; rep.Ready || rep.Asleep || rep.State == wire.Terminated {
			n++
		}
	}
	return n >= spec.Replicas.Min
}

// Failing says whether instances of a service, as applied, fail: whatever it was before, it
// is not a program to go back to.
func Failing(m *state.Model, app *record.Application, svc string, now time.Time) bool {
	if app.Spec.Services[svc].Job != nil {
		return false // its message says what became of it
	}
	for _, i := range m.Read().Of(app.Name, svc) {
		cur := m.Merged(i)
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
func judged(m *state.Model, app *record.Application, now time.Time) map[string]bool {
	if app.Held == nil {
		return nil
	}
	out := make(map[string]bool, len(app.Held))
	for name, held := range app.Held {
		out[name] = app.Spec.Services[name] != nil && (held || Holds(m, app, name)) && !Failing(m, app, name, now)
	}
	return out
}
