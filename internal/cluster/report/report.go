package report

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/moving"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/placement"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumemove"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Up derives what the root is told about each instance.
func Up(t *state.Tx) {
	for _, i := range t.Instances() {
		Instance(t, i)
	}
	for id := range t.Model.Ups {
		if t.Inst(id) == nil {
			t.Ups[id] = nil
		}
	}
}

// Instance derives what the root is told about an instance.
func Instance(t *state.Tx, i *wire.Instance) {
	old := t.Model.Ups[i.ID]
	up := reported(t, i, old)
	if old != nil && records.Identical(old, &up) { // as most are, which takes no memory
		return
	}
	if next := up; old == nil || !records.Same(old, &next) {
		t.Ups[next.ID] = &next
	}
}

// reported is the part of an instance's record that may leave the cluster. It shares
// what has not changed with what was said of it before (old, nil for nothing).
func reported(t *state.Tx, i *wire.Instance, old *wire.Reported) wire.Reported {
	m := t.Model
	up := wire.Reported{Instance: *i}
	up.Retained = i.Shadow != nil && i.Worker == ""
	up.SLAViolation = moving.Pass(t).Violations[i.ID]
	up.Failed = instances.FailedFor(t, i, rollouts.ShareFor(t, i))
	up.Avoid, up.Shadow, up.Moving, up.Leaving, up.FailedProgram, up.Places = nil, nil, nil, nil, "", nil
	if w, _ := m.Serves(i); w != nil {
		up.Trial, up.TrialShare = rollouts.Trial(t, i)
		up.Address, up.Peer = w.Info.Address, m.Peer(w.Info.Name)
		if netlease.NetworkOf(m).RelayOnly {
			up.Address = ""
		}
		if up.Addrs, up.Relay = netlease.In(t).Addrs(i, w), netlease.In(t).RelayOf(w); old != nil &&
			slices.Equal(old.Addrs, up.Addrs) {
			up.Addrs = old.Addrs
		}
		if s := m.Shares[i.App+"."+i.Service]; s != nil && s.Spec.Policy.Name == api.PolicyWeighted {
			up.CPU = w.Info.Capacity.CPU // others are not told without need what machines there are
		}
		if s := m.Shares[i.App+"."+i.Service]; s != nil && profile.SharesByWeight(s.Spec.Policy) {
			up.Serves, up.ServesBy = profile.Rated(t, i.App+"."+i.Service).On(w)
		}
	}
	if m.Details {
		return up
	}
	if up.Volumes != nil {
		up.Reason = volumemove.Describe(up.Volumes, "it is stopped while ")
	}
	up.Worker, up.Pinned, up.Former, up.Volumes, up.VolumesEnded = "", "", "", nil, nil
	if old != nil && slices.EqualFunc(old.History, i.History,
		func(said, is wire.Transition) bool { return said == outside(is) }) {
		up.History = old.History
		return up
	}
	up.History = slices.Clone(i.History)
	for n := range up.History {
		up.History[n] = outside(up.History[n])
	}
	return up
}

// outside is a transition without the name of a worker.
func outside(h wire.Transition) wire.Transition {
	if strings.HasPrefix(h.Tier, "worker/") {
		h.Tier = "worker"
	}
	return h
}

// Aggregate is all that the root learns about the inside.
func Aggregate(m *state.Model, reflects wire.Rev, areas []string) wire.Aggregate {
	t := m.Begin()
	runtimes, cordoned := map[string]bool{}, 0
	views := slices.DeleteFunc(fleet.Views(t, fleet.Reserved(t)), func(v place.WorkerView) bool {
		if v.Cordoned && !v.Suspect {
			cordoned++
		}
		return v.Cordoned && !v.Suspect
	})
	for n := range views {
		if v := &views[n]; !v.Suspect {
			for _, r := range v.Runtimes {
				runtimes[r] = true
			}
		}
	}
	agg := place.Aggregate(views)
	agg.V, agg.Areas, agg.Instances, agg.Reflects, agg.Details = wire.Version, areas, len(m.Insts), reflects, m.Details
	agg.Site, agg.SealKey, agg.Cordoned = m.Site, secrets.VaultOf(m).Public(), cordoned
	agg.Plugins = slices.Sorted(maps.Keys(advisor.Memory(m).Plugins))
	agg.Runtimes = slices.Sorted(maps.Keys(runtimes))
	place.Describe(views, &agg)
	if agg.Around != nil {
		agg.Around.Outside = proximity.Memory(m).Near.Outside()
	}
	agg.Lower = placement.Lower(t, views)
	agg.Network = netlease.Need(m)
	agg.Gateways = secrets.Gateways(m)
	agg.Short, agg.Entering = autoscale.Shortages(m), proximity.Memory(m).Entering
	return agg
}

// Behind counts the workers that do not trust the authorities that trust names.
func Behind(m *state.Model, trust string) (n int) {
	for _, w := range m.Workers {
		if w.Revoked.IsZero() && w.Info.Trust != trust {
			n++
		}
	}
	return n
}

// Significant says whether an aggregate changed enough to be sent before its
// time: another number of workers, or a free amount that moved by more than 5 %.
func Significant(a, b wire.Aggregate) bool {
	if a.Workers != b.Workers || a.Suspect != b.Suspect || a.Cordoned != b.Cordoned || a.Reflects != b.Reflects ||
		a.SealKey != b.SealKey || a.Gateways != b.Gateways ||
		a.Trust != b.Trust || a.Behind != b.Behind || !a.Expires.Equal(b.Expires) ||
		!slices.Equal(a.Areas, b.Areas) || !slices.Equal(a.Runtimes, b.Runtimes) ||
		!slices.Equal(a.Plugins, b.Plugins) || a.Details != b.Details ||
		!place.SameDescription(&a, &b) || !slices.Equal(a.Short, b.Short) || !slices.Equal(a.Entering, b.Entering) ||
		!bytes.Equal(a.Objects, b.Objects) || !records.Same(a.Network, b.Network) || !records.Same(a.Site, b.Site) {
		return true
	}
	moved := func(x, y wire.Spread) bool {
		return math.Abs(x.Sum-y.Sum) > 0.05*math.Max(x.Sum, y.Sum) ||
			math.Abs(x.Max-y.Max) > 0.05*math.Max(x.Max, y.Max)
	}
	return moved(a.CPU, b.CPU) || moved(a.Memory, b.Memory) || moved(a.Disk, b.Disk) ||
		moved(a.VGPUs, b.VGPUs) || moved(a.VTPUs, b.VTPUs) || moved(a.In, b.In) || moved(a.Out, b.Out)
}
