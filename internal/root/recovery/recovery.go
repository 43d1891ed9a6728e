package recovery

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Unasked says whether the cluster must be asked before it is told anything.
func Unasked(m *state.Model, name string) bool {
	return m.Mark() != nil && m.Mark().Asked[name].IsZero()
}

// Holding says whether there are clusters of which it is not known what they hold, and they may
// still say so. Nothing is decided meanwhile: what runs there could be started a
// second time elsewhere, and what the others have lose its routes.
func Holding(m *state.Model, now time.Time) bool {
	for name, c := range m.Clusters {
		if Unasked(m, name) && (!m.Dead(c, now) || m.Alone) {
			return true
		}
	}
	return false
}

// Silent says whether the cluster is told nothing yet.
func Silent(m *state.Model, name string) bool {
	return m.Mark() != nil && (!m.Settled || Unasked(m, name))
}

// Recover takes over what clusters have said that they hold. A cluster counts as
// asked in the round after the one in which nothing of it was new, so that all it
// has is stored by then.
func Recover(t *state.Tx, now time.Time) {
	if past := t.Model.Past().Back(func(name string) bool {
		c := t.Model.Clusters[name]
		return c == nil || c.Matched
	}); past != nil {
		SettlePast(t, past)
	}
	if mended(t.Model) {
		state.MarkTable.Put(t.Rows, "", nil)
		t.Event(event.RootRecoveryEnded, "",
			"all clusters have said what they hold: what was dropped (%s) is made anew of that",
			strings.Join(t.Model.Mark().Dropped, ", "))
		return
	}
	for _, name := range records.SortedKeys(t.Model.Clusters) {
		c := t.Model.Clusters[name]
		if c.Held == nil || !Unasked(t.Model, name) {
			continue
		}
		if c.Held.Lost {
			leased := netlease.AdoptLease(t, c)
			if adopt(t, c, now) || leased {
				continue
			}
		}
		asked(t, name, now)
		t.Event(event.ClusterRecoveryHeard, name, "it has sent its state: %d services", len(c.Held.Shares))
	}
}

// mended: all clusters have been asked what they hold, since records were dropped. There is
// nobody that a store which is whole otherwise could not know.
func mended(m *state.Model) bool {
	if m.Mark() == nil || len(m.Mark().Dropped) == 0 {
		return false
	}
	for name := range m.Clusters {
		if Unasked(m, name) {
			return false
		}
	}
	return true
}

// asked notes that a cluster need not be asked any more.
func asked(t *state.Tx, name string, now time.Time) {
	state.MarkTable.Put(t.Rows, "", state.MarkTable.Get(t.Rows, "").Heard(name, now))
	SettlePast(t, Past(t).Heard(name, t.Model.Proven[name]))
}

// Past is what is settled as this tx leaves it; nil: nothing ever was.
func Past(t *state.Tx) *backup.Settled { return state.SettledTable.Get(t.Rows, "") }

// SettlePast notes what recoveries have settled.
func SettlePast(t *state.Tx, past *backup.Settled) { state.SettledTable.Put(t.Rows, "", past) }

// adopt makes the root know what a cluster holds. It reports whether anything of
// it was new.
func adopt(t *state.Tx, c *state.Cluster, now time.Time) (changed bool) {
	has, dropped := map[wire.InstanceID]bool{}, len(t.Model.Mark().Dropped) > 0
	for n := range c.Held.Shares {
		s := &c.Held.Shares[n]
		if app := t.App(s.App); dropped && app != nil && app.Recovered == nil {
			// What is stored of it is newer than what a cluster has been told.
			changed = adoptMissing(t, c, s, now) || changed
			continue
		}
		changed = adoptApp(t, c, s, now) || changed
		changed = netlease.AdoptNumber(t, s) || changed
		for _, sp := range s.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				has[state.InstanceID(s.App, s.Service, o)] = true
				changed = adoptInstance(t, c, s, o, now) || changed
			}
		}
	}
	if dropped {
		return changed
	}
	// What the store says is there and is not was moved or ended after it.
	for _, i := range t.Instances("") {
		if i.Cluster == c.Name && !has[i.ID] {
			t.Event(event.InstanceUnheld, i.ID, "cluster %s does not hold it any more", c.Name)
			t.Remove(i.ID, now)
			unclaim(t, i)
			changed = true
		}
	}
	return changed
}

// unclaim notes that no cluster holds anything of the service of an instance that was
// removed. It was deleted or moved after the backup or copy was made. If it was moved,
// another cluster says so later.
func unclaim(t *state.Tx, i *wire.Instance) {
	app := t.App(i.App)
	if i.Draining || app == nil || !app.Deleting.IsZero() || app.Applied.After(t.Model.Mark().At) ||
		app.Spec.Services[i.Service] == nil {
		return
	}
	if len(t.Of(i.App, i.Service)) > 0 || slices.Contains(app.Unclaimed, i.Service) {
		return
	}
	next := *app
	next.Unclaimed = append(slices.Clone(app.Unclaimed), i.Service)
	t.Apps[i.App] = &next
	t.Event(event.ApplicationUnclaimed, i.App,
		"no cluster holds %s any more: it was probably deleted, and is not started before it is applied again",
		i.Service)
}

// claim takes back what unclaim noted.
func claim(t *state.Tx, s *wire.Share) {
	app := t.App(s.App)
	if app == nil || !slices.Contains(app.Unclaimed, s.Service) {
		return
	}
	next := *app
	next.Unclaimed = slices.DeleteFunc(slices.Clone(app.Unclaimed), func(svc string) bool { return svc == s.Service })
	if len(next.Unclaimed) == 0 {
		next.Unclaimed = nil
	}
	t.Apps[s.App] = &next
}

// adoptMissing makes the ordinals of a share known of which there is no record.
func adoptMissing(t *state.Tx, c *state.Cluster, s *wire.Share, now time.Time) (changed bool) {
	if !slices.ContainsFunc(t.Model.Mark().Dropped,
		func(key string) bool { return strings.HasPrefix(key, state.KeyInstance+s.App+"."+s.Service+".") }) {
		return false
	}
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To; o++ {
			if id := state.InstanceID(s.App, s.Service, o); t.Inst(id) == nil &&
				slices.Contains(t.Model.Mark().Dropped, state.KeyInstance+id) {
				changed = adoptInstance(t, c, s, o, now) || changed
			}
		}
	}
	return changed
}

// adoptApp makes what a share says of its application known.
func adoptApp(t *state.Tx, c *state.Cluster, s *wire.Share, now time.Time) bool {
	mark := t.Model.Mark()
	old := t.App(s.App)
	if old != nil && old.Applied.After(mark.At) && old.Recovered == nil {
		// Somebody has applied it anew since: that counts, under a revision that no
		// cluster has seen.
		if s.Revision < old.Revision {
			return false
		}
		next := *old
		next.Revision = s.Revision + 1
		t.Apps[s.App] = &next
		return true
	}
	if old != nil && old.Deleting.After(mark.At) {
		return false
	}
	next := record.Application{V: wire.Version, Name: s.App, Revision: s.Revision, Created: mark.Made,
		Applied: mark.Made}
	spec := api.Application{Application: s.App, Namespace: s.Namespace, Services: map[string]*api.Service{}}
	if old != nil {
		was := old.Spec.Services[s.Service]
		same := was != nil && records.Same(was, s.Spec)
		var known uint64 // revision of the service that another cluster has told
		if old.Recovered != nil {
			known = old.Recovered.Services[s.Service]
		}
		switch {
		case s.Revision <= known, same && s.Revision <= old.Revision && old.Deleting.IsZero():
			return adoptMarks(t, old, s)
		case s.Revision < old.Revision && old.Recovered == nil:
			// It was deleted and applied anew: the revisions began again.
		default:
			next = *old
			next.Revision, next.Deleting = max(old.Revision, s.Revision), time.Time{}
			maps.Copy(spec.Services, old.Spec.Services)
		}
	}
	spec.Services[s.Service] = s.Spec
	next.Spec = &spec
	text, err := json.MarshalIndent(&spec, "", "  ")
	if err != nil {
		t.Event(event.ApplicationUnrecovered, s.App, "it cannot be recovered: %v", err)
		return false
	}
	next.Source = string(text) + "\n"
	next.Recovered = &wire.Recovered{From: []string{c.Name}, At: now.Round(0),
		Services: map[string]uint64{s.Service: s.Revision}}
	if old != nil && old.Recovered != nil {
		maps.Copy(next.Recovered.Services, old.Recovered.Services)
		next.Recovered.Services[s.Service] = s.Revision
		next.Recovered.From = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(old.Recovered.From),
			c.Name))))
	}
	t.Apps[s.App] = &next
	adoptMarks(t, &next, s)
	t.Event(event.ApplicationRecovered, s.App, "%s at revision %d was not known here: recovered from cluster %s",
		s.Service, s.Revision, c.Name)
	return true
}

// adoptMarks takes over the restarts that a share has seen.
func adoptMarks(t *state.Tx, app *record.Application, s *wire.Share) bool {
	seen := map[string]wire.Restart{}
	if s.Restart != nil {
		seen[s.Service] = *s.Restart
	}
	for o, r := range s.RestartOf {
		seen[s.Service+"."+strconv.Itoa(o)] = r
	}
	next := *app
	next.Restarts = maps.Clone(app.Restarts)
	changed := false
	for key, r := range seen {
		if next.Restarts[key].N < r.N {
			if next.Restarts == nil {
				next.Restarts = map[string]wire.Restart{}
			}
			next.Restarts[key], changed = r, true
		}
	}
	if changed {
		t.Apps[app.Name] = &next
	}
	return changed
}

// adoptInstance makes it known that a cluster has an ordinal of a share.
func adoptInstance(t *state.Tx, c *state.Cluster, s *wire.Share, ordinal int, now time.Time) bool {
	id := state.InstanceID(s.App, s.Service, ordinal)
	old := t.Inst(id)
	switch {
	case old == nil:
	case old.Cluster == c.Name && !old.Draining:
		return false
	case old.Cluster == c.Name && t.App(s.App) != nil && t.App(s.App).Deleting.After(t.Model.Mark().At):
		return false // it is being deleted since
	case old.Cluster != "" && old.Cluster != c.Name && holds(t, old.Cluster, s.App, s.Service, ordinal):
		return false // another one has it too: one of the two ends, as always
	}
	claim(t, s)
	t.Put(wire.Instance{
		V: wire.Version, ID: id, App: s.App, Service: s.Service, Ordinal: ordinal, Revision: s.Revision,
		Cluster: c.Name, State: wire.ClusterScheduled, Since: now.Round(0), Reason: "recovered from cluster " + c.Name,
		History: []wire.Transition{{To: wire.ClusterScheduled, At: now.Round(0), Tier: state.Tier,
			Why: "cluster " + c.Name + " holds it, the root did not know of that"}},
	})
	return true
}

// holds says whether a cluster has said that it has an ordinal of a service.
func holds(t *state.Tx, cluster, app, service string, ordinal int) bool {
	c := t.Model.Clusters[cluster]
	if c == nil || c.Held == nil {
		return false
	}
	return slices.ContainsFunc(c.Held.Shares, func(s wire.Share) bool {
		return s.App == app && s.Service == service &&
			slices.ContainsFunc(s.Ordinals, func(sp wire.Span) bool { return ordinal >= sp.From && ordinal < sp.To })
	})
}

// Bounds of what one cluster may hold.
const (
	// MaxHeld is how many shares a cluster may hold.
	MaxHeld = 20_000
	// MaxHeldBytes is how large they may be together.
	MaxHeldBytes = 64 << 20
)

// CheckHeld refuses a share that no root can have delegated. What a cluster says is
// believed only while a root recovers, but then it becomes what all are told.
func CheckHeld(s *wire.Share) error {
	for _, name := range []string{s.App, s.Service} {
		if !enroll.IsName(name) {
			return fmt.Errorf("%q is not a name", state.Cut(name, state.MaxName))
		}
	}
	switch {
	case s.Spec == nil:
		return fmt.Errorf("%s.%s has no service in it", s.App, s.Service)
	case s.Revision == 0 || s.Revision >= wire.LocalRevisions:
		return fmt.Errorf("%s.%s has revision %d", s.App, s.Service, s.Revision)
	}
	n := 0
	for _, sp := range s.Ordinals {
		if sp.From < 0 || sp.To < sp.From || sp.To > wire.LocalOrdinals {
			return fmt.Errorf("%s.%s has ordinals from %d to %d", s.App, s.Service, sp.From, sp.To)
		}
		n += sp.To - sp.From
	}
	if n > api.MaxReplicas {
		return fmt.Errorf("%s.%s has %d instances", s.App, s.Service, n)
	}
	// Whatever may be applied may be recovered, and nothing else.
	text, err := json.Marshal(api.Application{Application: s.App, Namespace: s.Namespace,
		Services: map[string]*api.Service{s.Service: s.Spec}})
	if err != nil {
		return fmt.Errorf("%s.%s: %w", s.App, s.Service, err)
	}
	if len(text) > api.MaxDescriptorBytes {
		return fmt.Errorf("%s.%s has %d bytes", s.App, s.Service, len(text))
	}
	return nil
}

// View says how far the recovery is.
func View(m *state.Model, now time.Time) apiv1.RecoveryView {
	v := apiv1.RecoveryView{Peers: []apiv1.RecoveryPeer{}}
	if m.Mark() == nil {
		return v
	}
	v.Restored, v.Made, v.Holding, v.Dropped = m.Mark().At, m.Mark().Made, Holding(m, now), m.Mark().Dropped
	v.Ahead, v.Twin = m.Mark().Ahead, m.Mark().Twin
	for _, name := range records.SortedKeys(m.Clusters) {
		v.Peers = append(v.Peers, apiv1.RecoveryPeer{Name: name, Asked: m.Mark().Asked[name],
			Problem: m.Clusters[name].Unheld})
	}
	for name, app := range m.Apps {
		if app.Recovered != nil {
			if v.Applications == nil {
				v.Applications = map[string]wire.Recovered{}
			}
			v.Applications[name] = *app.Recovered
		}
	}
	return v
}

// Problems are what people must know about a recovery.
func Problems(v apiv1.RecoveryView) []string {
	if v.Restored.IsZero() {
		return nil
	}
	var missing, out []string
	for _, p := range v.Peers {
		if p.Asked.IsZero() {
			text := p.Name
			if p.Problem != "" {
				text += " (" + p.Problem + ")"
			}
			missing = append(missing, text)
		}
	}
	since := v.Why()
	if len(missing) > 0 {
		text := since + ": not known yet what these clusters hold: " + strings.Join(missing, ", ")
		if v.Holding {
			text += "; nothing is decided until they have said it or count as dead"
		}
		out = append(out, text)
	} else if len(v.Dropped) == 0 {
		out = append(out, since+": clusters that joined later must join again with new tokens; when all are there: "+
			"verge recovery finish")
	}
	for _, name := range records.SortedKeys(v.Applications) {
		out = append(out, fmt.Sprintf("application %s was recovered from %s: its descriptor as it was written is "+
			"lost, apply it again", name, strings.Join(v.Applications[name].From, ", ")))
	}
	return out
}
