package cluster

import (
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
	"slices"
	"strings"
	"time"
)

// What was done is counted with what it changes, in the same commits: a count costs
// no write of its own, and is as durable as what it counts. The root is told of it
// as of instances.

// ran notes the runs of an instance that its worker tells of. It comes before what
// is known of the restarts in place is brought up to date.
func ran(i *wire.Instance, st wire.InstanceStatus) {
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

// ended says whether an instance that is to be started was given up by its worker since its
// program had ended, or had failed its check.
func ended(i *wire.Instance) bool {
	for _, h := range slices.Backward(i.History) {
		switch {
		case h.To == wire.Failed:
			return strings.HasPrefix(h.Tier, "worker/") && h.Because() != wire.CauseRefused
		case h.To == wire.Running:
			return false
		}
	}
	return false
}

// count adds up the restarts that this tx takes over, and puts the counts of
// applications that have left the cluster with those of the others that have. One that
// goes on elsewhere has not: what was counted here is still its own. That is known of
// applications with ports, since their routes are told to every cluster.
func (t *tx) count() {
	for id, i := range t.Insts {
		old := t.m.Insts[id]
		if i == nil || old == nil {
			continue
		}
		if n := i.Again() - old.Again(); n > 0 {
			t.Tally(i.App, wire.Tally{Restarts: uint64(n)})
		}
	}
	if len(t.m.Tallies) == 0 {
		return
	}
	here := map[string]bool{wire.TallyGone: true}
	for _, s := range t.m.Shares {
		here[s.App] = true
	}
	for _, s := range t.m.Given {
		here[s.App] = true
	}
	for _, i := range t.Instances() {
		here[i.App] = true
	}
	for _, r := range t.m.Far {
		here[r.App] = true
	}
	for _, app := range records.SortedKeys(t.m.Tallies) {
		if !here[app] {
			t.Tally(wire.TallyGone, *t.m.Tallies[app])
			t.Tallies[app] = nil
		}
	}
}

// taken counts the services that the root changes, by application: what is there
// that was not, what is not there that was, and what is to be otherwise. A share of
// another revision that asks for the same is no change.
func taken(have, want map[string]*wire.Share) map[string]uint64 {
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
	return a.Min != b.Min || a.Max != b.Max || !slices.Equal(a.Ordinals, b.Ordinals) || !sameButReplicas(a.Spec, b.Spec)
}

// lost is when the root was lost, and what was counted until then.
type lost struct {
	at  time.Time
	was wire.Tally
}

// sinceAway is what was counted since.
func (c *core) sinceAway() *wire.TallySince {
	return &wire.TallySince{At: c.lost.at, Tally: c.m.Counted().Since(c.lost.was)}
}
