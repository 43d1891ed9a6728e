package instances

import (
	"slices"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// What was done is counted with what it changes, in the same commits: a count costs
// no write of its own, and is as durable as what it counts. The root is told of it
// as of instances.

// Ran notes the runs of an instance that its worker tells of. It comes before what
// is known of the restarts in place is brought up to date.
func Ran(i *wire.Instance, st wire.InstanceStatus) {
	i.AllRestarts = i.Again() // where a version before this one wrote it
	switch {
	case st.Phase != wire.PhaseRunning && st.Phase != wire.PhaseExited && st.Restarts == 0:
		// It has not started yet.
	case st.Incarnation > i.Ran:
		i.Starts += 1 + st.Restarts
		i.AllRestarts += st.Restarts
		i.Ran = st.Incarnation
	default: // also an original that is back
		more := max(0, st.Restarts-i.Restarts)
		i.Starts, i.AllRestarts = i.Starts+more, i.AllRestarts+more
	}
}

// Count adds up the restarts that this tx takes over, and puts the counts of
// applications that have left the cluster with those of the others that have. One that
// goes on elsewhere has not: what was counted here is still its own. That is known of
// applications with ports, since their routes are told to every cluster.
func Count(t *state.Tx) {
	for id, i := range t.Insts {
		old := t.Model.Insts[id]
		if i == nil || old == nil {
			continue
		}
		if n := i.Again() - old.Again(); n > 0 {
			t.Count(i.App, wire.Counters{Restarts: uint64(n)})
		}
	}
	if len(t.Model.Counters) == 0 {
		return
	}
	here := map[string]bool{wire.GoneCounters: true}
	for _, s := range t.Model.Shares {
		here[s.App] = true
	}
	for _, s := range t.Model.FromRoot {
		here[s.App] = true
	}
	for _, i := range t.Instances() {
		here[i.App] = true
	}
	for _, r := range t.Model.Far {
		here[r.App] = true
	}
	for _, app := range records.SortedKeys(t.Model.Counters) {
		if !here[app] {
			t.Count(wire.GoneCounters, *t.Model.Counters[app])
			t.Counters[app] = nil
		}
	}
}

// Taken counts the services that the root changes, by application: what is there
// that was not, what is not there that was, and what is to be otherwise. A share of
// another revision that asks for the same is no change.
func Taken(have, want map[string]*wire.Share) map[string]uint64 {
	out := map[string]uint64{}
	for key, s := range want {
		if old := have[key]; old == nil || old != s && changed(old, s) {
			out[s.App]++
		}
	}
	for key, s := range have {
		if want[key] == nil {
			out[s.App]++
		}
	}
	return out
}

func changed(a, b *wire.Share) bool {
	return a.Min != b.Min || a.Max != b.Max || !slices.Equal(a.Ordinals, b.Ordinals) ||
		!localedit.SameButReplicas(a.Spec, b.Spec)
}
