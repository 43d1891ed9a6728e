package root

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/wire"
)

// A root that was restored from a backup, or whose data directory is an older copy of
// itself, does not know what was acknowledged after the backup or copy was made. Its clusters do: they hold what they were told. So each is
// asked what it holds before it is told anything, and what the root does not know
// is taken over from it.

// recovery is what a restored root knows beyond its store.
type recovery struct {
	// proven are the states of other eras that clusters have proved to this process.
	proven map[string]wire.Rev
	// settled: a pass has decided on everything since what was asked for had come.
	settled bool
}

// held is what a cluster said that it holds.
type held struct {
	shares []wire.Share
	lease  *wire.ClusterLease
	// lost: the cluster has seen what this root's store has not. Where it has not,
	// the store knows better.
	lost bool
}

// unasked says whether the cluster must be asked before it is told anything.
func (m *model) unasked(name string) bool {
	return m.mark() != nil && m.mark().Asked[name].IsZero()
}

// holding: there are clusters of which it is not known what they hold, and they may
// still say so. Nothing is decided meanwhile: what runs there could be started a
// second time elsewhere, and what the others have lose its routes.
func (m *model) holding(now time.Time) bool {
	for name, c := range m.clusters {
		if m.unasked(name) && (!m.dead(c, now) || m.alone) {
			return true
		}
	}
	return false
}

// silent: the cluster is told nothing yet.
func (m *model) silent(name string) bool {
	return m.mark() != nil && (!m.recovery.settled || m.unasked(name))
}

// recover takes over what clusters have said that they hold. A cluster counts as
// asked in the round after the one in which nothing of it was new, so that all it
// has is stored by then.
func (t *tx) recover(now time.Time) {
	if past := t.m.past().Back(func(name string) bool {
		c := t.m.clusters[name]
		return c == nil || c.matched
	}); past != nil {
		t.settlePast(past)
	}
	if t.m.mended() {
		markTable.Put(t.rows, "", nil)
		t.event("root", "all clusters have said what they hold: what was dropped (%s) is made anew of that", strings.Join(t.m.mark().Dropped, ", "))
		return
	}
	for _, name := range records.SortedKeys(t.m.clusters) {
		c := t.m.clusters[name]
		if c.held == nil || !t.m.unasked(name) {
			continue
		}
		if c.held.lost {
			leased := t.adoptLease(c)
			if t.adopt(c, now) || leased {
				continue
			}
		}
		t.asked(name, now)
		t.event("cluster/"+name, "it has said what it holds: %d services", len(c.held.shares))
	}
}

// mended: all clusters have been asked what they hold, since records were dropped. There is
// nobody that a store which is whole otherwise could not know.
func (m *model) mended() bool {
	if m.mark() == nil || len(m.mark().Dropped) == 0 {
		return false
	}
	for name := range m.clusters {
		if m.unasked(name) {
			return false
		}
	}
	return true
}

// asked notes that a cluster need not be asked any more.
func (t *tx) asked(name string, now time.Time) {
	markTable.Put(t.rows, "", markTable.Get(t.rows, "").Heard(name, now))
	t.settlePast(t.past().Heard(name, t.m.recovery.proven[name]))
}

// past is what is settled as this tx leaves it; nil: nothing ever was.
func (t *tx) past() *backup.Settled { return settledTable.Get(t.rows, "") }

func (t *tx) settlePast(past *backup.Settled) { settledTable.Put(t.rows, "", past) }

// app as this tx sees it; nil if there is none.
func (t *tx) app(name string) *wire.Application {
	if a, ok := t.apps[name]; ok {
		return a
	}
	return t.m.apps[name]
}

// adopt makes the root know what a cluster holds. It reports whether anything of
// it was new.
func (t *tx) adopt(c *cluster, now time.Time) (changed bool) {
	has, dropped := map[wire.InstanceID]bool{}, len(t.m.mark().Dropped) > 0
	for n := range c.held.shares {
		s := &c.held.shares[n]
		if app := t.app(s.App); dropped && app != nil && app.Recovered == nil {
			// What is stored of it is newer than what a cluster has been told.
			changed = t.adoptMissing(c, s, now) || changed
			continue
		}
		changed = t.adoptApp(c, s, now) || changed
		changed = t.adoptNumber(s) || changed
		for _, sp := range s.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				has[instanceID(s.App, s.Service, o)] = true
				changed = t.adoptInstance(c, s, o, now) || changed
			}
		}
	}
	if dropped {
		return changed
	}
	// What the store says is there and is not was moved or ended after it.
	for _, i := range t.instances("") {
		if i.Cluster == c.Name && !has[i.ID] {
			t.event("instance/"+i.ID, "cluster %s does not hold it any more", c.Name)
			t.remove(i.ID, now)
			t.unclaim(i)
			changed = true
		}
	}
	return changed
}

// unclaim notes that no cluster holds anything of the service of an instance that was
// removed. It was deleted or moved after the backup or copy was made. If it was moved,
// another cluster says so later.
func (t *tx) unclaim(i *wire.Instance) {
	app := t.app(i.App)
	if i.Draining || app == nil || !app.Deleting.IsZero() || app.Applied.After(t.m.mark().At) || app.Spec.Services[i.Service] == nil {
		return
	}
	if len(t.of(i.App, i.Service)) > 0 || slices.Contains(app.Unclaimed, i.Service) {
		return
	}
	next := *app
	next.Unclaimed = append(slices.Clone(app.Unclaimed), i.Service)
	t.apps[i.App] = &next
	t.event("application/"+i.App, "no cluster holds %s any more: it was probably deleted, and is not started before it is applied again", i.Service)
}

// claim takes back what unclaim noted.
func (t *tx) claim(s *wire.Share) {
	app := t.app(s.App)
	if app == nil || !slices.Contains(app.Unclaimed, s.Service) {
		return
	}
	next := *app
	next.Unclaimed = slices.DeleteFunc(slices.Clone(app.Unclaimed), func(svc string) bool { return svc == s.Service })
	if len(next.Unclaimed) == 0 {
		next.Unclaimed = nil
	}
	t.apps[s.App] = &next
}

// adoptMissing makes the ordinals of a share known of which there is no record.
func (t *tx) adoptMissing(c *cluster, s *wire.Share, now time.Time) (changed bool) {
	if !slices.ContainsFunc(t.m.mark().Dropped, func(key string) bool { return strings.HasPrefix(key, keyInstance+s.App+"."+s.Service+".") }) {
		return false
	}
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To; o++ {
			if id := instanceID(s.App, s.Service, o); t.inst(id) == nil && slices.Contains(t.m.mark().Dropped, keyInstance+id) {
				changed = t.adoptInstance(c, s, o, now) || changed
			}
		}
	}
	return changed
}

// adoptApp makes what a share says of its application known.
func (t *tx) adoptApp(c *cluster, s *wire.Share, now time.Time) bool {
	mark := t.m.mark()
	old := t.app(s.App)
	if old != nil && old.Applied.After(mark.At) && old.Recovered == nil {
		// Somebody has applied it anew since: that counts, under a revision that no
		// cluster has seen.
		if s.Revision < old.Revision {
			return false
		}
		next := *old
		next.Revision = s.Revision + 1
		t.apps[s.App] = &next
		return true
	}
	if old != nil && old.Deleting.After(mark.At) {
		return false
	}
	next := wire.Application{V: wire.Version, Name: s.App, Revision: s.Revision, Created: mark.Made, Applied: mark.Made}
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
			return t.adoptMarks(old, s)
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
		t.event("application/"+s.App, "it cannot be recovered: %v", err)
		return false
	}
	next.Source = string(text) + "\n"
	next.Recovered = &wire.Recovered{From: []string{c.Name}, At: now.Round(0), Services: map[string]uint64{s.Service: s.Revision}}
	if old != nil && old.Recovered != nil {
		maps.Copy(next.Recovered.Services, old.Recovered.Services)
		next.Recovered.Services[s.Service] = s.Revision
		next.Recovered.From = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(old.Recovered.From), c.Name))))
	}
	t.apps[s.App] = &next
	t.adoptMarks(&next, s)
	t.event("application/"+s.App, "%s at revision %d was not known here: recovered from cluster %s", s.Service, s.Revision, c.Name)
	return true
}

// adoptMarks takes over the restarts that a share has seen.
func (t *tx) adoptMarks(app *wire.Application, s *wire.Share) bool {
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
		t.apps[app.Name] = &next
	}
	return changed
}

// adoptInstance makes it known that a cluster has an ordinal of a share.
func (t *tx) adoptInstance(c *cluster, s *wire.Share, ordinal int, now time.Time) bool {
	id := instanceID(s.App, s.Service, ordinal)
	old := t.inst(id)
	switch {
	case old == nil:
	case old.Cluster == c.Name && !old.Draining:
		return false
	case old.Cluster == c.Name && t.app(s.App) != nil && t.app(s.App).Deleting.After(t.m.mark().At):
		return false // it is being deleted since
	case old.Cluster != "" && old.Cluster != c.Name && t.holds(old.Cluster, s.App, s.Service, ordinal):
		return false // another one has it too: one of the two ends, as always
	}
	t.claim(s)
	t.put(wire.Instance{
		V: wire.Version, ID: id, App: s.App, Service: s.Service, Ordinal: ordinal, Revision: s.Revision,
		Cluster: c.Name, State: wire.ClusterScheduled, Since: now.Round(0), Reason: "recovered from cluster " + c.Name,
		History: []wire.Transition{{To: wire.ClusterScheduled, At: now.Round(0), Tier: tier, Why: "cluster " + c.Name + " holds it, the root did not know of that"}},
	})
	return true
}

// holds says whether a cluster has said that it has an ordinal of a service.
func (t *tx) holds(cluster, app, service string, ordinal int) bool {
	c := t.m.clusters[cluster]
	if c == nil || c.held == nil {
		return false
	}
	return slices.ContainsFunc(c.held.shares, func(s wire.Share) bool {
		return s.App == app && s.Service == service && slices.ContainsFunc(s.Ordinals, func(sp wire.Span) bool { return ordinal >= sp.From && ordinal < sp.To })
	})
}

// Bounds of what one cluster may hold.
const (
	maxHeld      = 20_000
	maxHeldBytes = 64 << 20
)

// checkHeld refuses a share that no root can have delegated. What a cluster says is
// believed only while a root recovers, but then it becomes what all are told.
func checkHeld(s *wire.Share) error {
	for _, name := range []string{s.App, s.Service} {
		if !enroll.IsName(name) {
			return fmt.Errorf("%q is not a name", cut(name, maxName))
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
	text, err := json.Marshal(api.Application{Application: s.App, Namespace: s.Namespace, Services: map[string]*api.Service{s.Service: s.Spec}})
	if err != nil {
		return fmt.Errorf("%s.%s: %w", s.App, s.Service, err)
	}
	if len(text) > api.MaxDescriptorBytes {
		return fmt.Errorf("%s.%s has %d bytes", s.App, s.Service, len(text))
	}
	return nil
}

// recoveryView says how far the recovery is.
func (m *model) recoveryView(now time.Time) wire.RecoveryView {
	v := wire.RecoveryView{Peers: []wire.RecoveryPeer{}}
	if m.mark() == nil {
		return v
	}
	v.Restored, v.Made, v.Holding, v.Dropped = m.mark().At, m.mark().Made, m.holding(now), m.mark().Dropped
	v.Ahead, v.Twin = m.mark().Ahead, m.mark().Twin
	for _, name := range records.SortedKeys(m.clusters) {
		v.Peers = append(v.Peers, wire.RecoveryPeer{Name: name, Asked: m.mark().Asked[name], Problem: m.clusters[name].unheld})
	}
	for name, app := range m.apps {
		if app.Recovered != nil {
			if v.Applications == nil {
				v.Applications = map[string]wire.Recovered{}
			}
			v.Applications[name] = *app.Recovered
		}
	}
	return v
}

// recoveryProblems are what people must know about a recovery.
func recoveryProblems(v wire.RecoveryView) []string {
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
		out = append(out, since+": clusters that joined later must join again with new tokens; when all are there: verge recovery finish")
	}
	for _, name := range records.SortedKeys(v.Applications) {
		out = append(out, fmt.Sprintf("application %s was recovered from %s: its descriptor as it was written is lost, apply it again", name, strings.Join(v.Applications[name].From, ", ")))
	}
	return out
}
