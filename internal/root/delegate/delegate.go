package delegate

import (
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Shares derives the shares from the instances that each cluster was given.
func Shares(t *state.Tx) {
	want := map[string]*wire.Share{}
	promised := map[string]int{} // instances that always run, by service
	replaced := map[wire.InstanceID]bool{}
	for _, i := range t.Instances("") {
		if i.Replaces != "" && i.Cluster != "" && !i.Draining {
			replaced[i.Replaces] = true
		}
	}
	for _, i := range t.Instances("") {
		app := t.Model.Apps[i.App]
		if i.Cluster == "" || i.Draining || app == nil || app.Spec.Services[i.Service] == nil {
			continue
		}
		key := i.Cluster + "." + i.App + "." + i.Service
		s := want[key]
		if s == nil {
			s = &wire.Share{
				V: wire.Version, App: i.App, Namespace: wire.NamespaceOf(app.Spec),
				Standing: namespaces.StandingOf(t.Model, wire.NamespaceOf(app.Spec)).Claims(), Service: i.Service,
				Revision: app.Revision,
				Spec:     app.Spec.Services[i.Service], AppNumber: netlease.NumberOf(t, i.App),
				Elsewhere: len(t.Model.Clusters) > 1, Waves: rollouts.WaveGate(t.Model, wire.NamespaceOf(app.Spec)),
			}
			want[key] = s
		}
		// Those promised are the first that no cluster has lost; where a cluster goes on
		// by itself, it runs what it was promised.
		if svc := i.App + "." + i.Service; !s.Spec.Replicas.Elastic() {
			s.Min++
		} else if !i.Unreachable && promised[svc] < s.Spec.Replicas.Min {
			promised[svc]++
			s.Min++
		}
		s.Max++
		if c := t.Model.Clusters[i.Cluster]; replaced[i.ID] && c != nil && c.Seen[i.ID] != nil &&
			c.Seen[i.ID].Room != nil {
			s.Replacing = append(s.Replacing, i.Ordinal)
		}
		// In order of ordinals, so that a span can only grow at its end.
		if n := len(s.Ordinals); n > 0 && s.Ordinals[n-1].To == i.Ordinal {
			s.Ordinals[n-1].To++
		} else {
			s.Ordinals = append(s.Ordinals, wire.Span{From: i.Ordinal, To: i.Ordinal + 1})
		}
	}
	for key, s := range want {
		if o := overflow.Table.Get(t.Rows, s.App+"."+s.Service); o != nil && s.Spec.Replicas.Elastic() {
			name, _, _ := strings.Cut(key, ".")
			s.Extra = scale.Extra(o.Gives, name)
		}
	}
	rollouts.Waves(t, want)
	jobs.Share(t, want)
	jobs.ShareSchedules(t, want)
	jobs.ShareDone(t, want)
	rollouts.Restart(t, want)
	for key, s := range want {
		if old := t.Model.Shares[key]; old == nil || !sameShare(old, s) {
			share(t, key, s)
		}
	}
	for key := range t.Model.Shares {
		if want[key] == nil {
			share(t, key, nil)
		}
	}
}

// sameShare compares without encoding where nothing was read or applied since:
// the shares of a large application are megabytes.
func sameShare(old, s *wire.Share) bool {
	if old.Spec == s.Spec && old.Revision == s.Revision && old.AppNumber == s.AppNumber && old.Min == s.Min &&
		old.Max == s.Max && old.Extra == s.Extra && old.Elsewhere == s.Elsewhere &&
		slices.Equal(old.Replacing, s.Replacing) && old.Waves == s.Waves && old.Standing == s.Standing &&
		slices.Equal(old.Ordinals, s.Ordinals) && rollouts.SameRestarts(old, s) && sameJob(old, s) &&
		rollouts.SameHold(old.Hold, s.Hold) {
		return true
	}
	if !records.Same(old, s) {
		return false
	}
	old.Spec = s.Spec // equal, and known to be the next time
	return true
}

// sameJob compares what shares say of jobs.
func sameJob(a, b *wire.Share) bool {
	if (a.Parallel == nil) != (b.Parallel == nil) || a.Parallel != nil && *a.Parallel != *b.Parallel {
		return false
	}
	return maps.Equal(a.Index, b.Index) && records.Same(a.Stop, b.Stop) && records.Same(a.Cron, b.Cron) &&
		records.Same(a.Done, b.Done)
}

func share(t *state.Tx, key string, s *wire.Share) {
	t.Shares[key] = s
	name, service, _ := strings.Cut(key, ".")
	old := t.Model.Shares[key]
	was, is, elastic := 0, 0, false
	if old != nil {
		was, elastic = old.Max, old.Spec != nil && old.Spec.Replicas.Elastic()
	}
	if s != nil {
		is, elastic = s.Max, s.Spec.Replicas.Elastic()
	}
	if elastic && was != is { // in one line, whatever their number
		t.Event(event.ServiceScaled, service, "up to %d may run in cluster %s, %d before", is, name, was)
	}
	t.Nudge[name] = true
}
