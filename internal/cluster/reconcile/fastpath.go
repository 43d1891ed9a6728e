package reconcile

import (
	"time"

	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/lifecycle"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

// StepOf is the part of step that is about some instances of which something was
// heard, where that is no more than that they have started and whether they are ready.
// left: others are among them, which are left to a pass.
func StepOf(m *state.Model, ids []wire.InstanceID, now time.Time) (t *state.Tx, left bool) {
	t = m.Begin()
	services := map[[2]string]bool{}
	for _, id := range ids {
		was := m.Insts[id]
		if was == nil {
			continue // an instance of the past: what its worker has of it, it is told to end
		}
		if !plain(t, was) {
			left = true
			continue
		}
		said := len(t.Events)
		lifecycle.Observe(t, id, now)
		is := t.Inst(id)
		if is == was {
			continue
		}
		if !plain(t, is) || is.State != wire.Running || is.Worker != was.Worker || is.Again() != was.Again() {
			t.Put(*was)
			t.Events, left = t.Events[:said], true
			continue
		}
		newsOf(t, was, is)
		services[[2]string{is.App, is.Service}] = true
		report.Instance(t, is)
	}
	routes.RouteOf(t, services)
	return t, left
}

// plain: an instance that is where it should be, and about which nothing is to be
// decided.
func plain(t *state.Tx, i *wire.Instance) bool {
	return (i.State == wire.WorkerScheduled || i.State == wire.Running) && i.Worker != "" && i.Moving == nil &&
		i.Leaving == nil &&
		i.Volumes == nil && i.Shadow == nil && !i.Draining && !i.Asleep && !i.Unreachable && instances.Wanted(t, i)
}

// Steady reports whether every instance is where it should be and as its share says, or on its way to
// start there. Where one is not, others may wait for what is heard of this one.
func Steady(m *state.Model) bool {
	t := m.Begin()
	if rollouts.BusyRolling(m) {
		return false
	}
	for _, i := range m.Insts {
		if i.State == wire.Terminated && i.Leaving == nil {
			continue
		}
		s := m.Shares[i.App+"."+i.Service]
		if s == nil || i.Revision != s.Revision || i.Restarted < state.RestartOf(s, i.Ordinal).N ||
			i.Ordinal >= wire.LocalOrdinals || !state.Asleep(i) && !plain(t, i) {
			return false
		}
	}
	return true
}

// MaxFastPathRest bounds the pause after the fast path, for routes that wait for who is ready.
const MaxFastPathRest = 50 * time.Millisecond

// MostRest bounds the pause after a pass, below what makes a loop think that its
// process stood still.
const MostRest = loop.Tick / 2
