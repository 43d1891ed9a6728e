package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of what is kept about changes that were made here.
const (
	maxLocals    = 1000
	maxConflicts = 100
)

// handOver is how long instances that this site made by itself stay while the
// root's, which take over from them, start.
const handOver = time.Minute

// local is a change of one service that an operator made here.
type local struct {
	V         int    `json:"v"`
	Namespace string `json:"namespace,omitempty"`
	App       string `json:"app"`
	Service   string `json:"service"`
	// Number of the change; they are counted over all services.
	Number uint64 `json:"number"`
	Base   base   `json:"base"`
	// Gone: it is not to run here.
	Gone bool `json:"gone,omitempty"`
	// Replicas that are to run here.
	Replicas int `json:"replicas"`
	// Most of them, where the requests decide; 0: as many as Replicas.
	Most int `json:"most,omitempty"`
	// Spec of the service; nil: the root's.
	Spec *api.Service `json:"spec,omitempty"`
	By   string       `json:"by"`
	At   time.Time    `json:"at"`
}

// base is what the root said when a local change was made: nothing of it counts
// but whether it says the same today.
type base struct {
	Revision uint64       `json:"revision,omitempty"`
	Replicas int          `json:"replicas,omitempty"`
	Spec     *api.Service `json:"spec,omitempty"` // nil: the service was not delegated to this cluster
	// Known: the root has the application, be it in other clusters only.
	Known bool `json:"known,omitempty"`
}

// conflict is a local change that gave way, as it is stored.
type conflict struct {
	V            int       `json:"v"`
	Local        local     `json:"local"`
	Root         string    `json:"root"`
	RootRevision uint64    `json:"root_revision,omitempty"`
	Found        time.Time `json:"found"`
}

func (l *local) key() string { return l.App + "." + l.Service }

// revision that instances of the change carry.
func (l *local) revision() uint64 {
	if l.Spec == nil {
		return l.Base.Revision
	}
	return wire.LocalRevisions + l.Number
}

// fate is what becomes of a local change in view of what the root says now.
type fate int

const (
	stands    fate = iota // the root has not said anything new about the service
	agreed                // the root says the same now
	overruled             // the root says something else: that counts
)

// fate judges a local change. why says in words what the root says now, where that
// is something else. rootKnows says which applications the root has.
func (m *model) fate(l *local, rootKnows map[string]bool) (_ fate, why string) {
	given := m.Given[l.key()]
	switch {
	case given == nil && l.Gone:
		return agreed, ""
	case given == nil && l.Base.Spec != nil:
		return overruled, "the root has taken it away from here"
	case given == nil && !l.Base.Known && rootKnows[l.App]:
		return overruled, "the root has an application of that name, of which this is no part here"
	case given == nil && l.Base.Known && !rootKnows[l.App]:
		return overruled, "the root has deleted the application"
	case given == nil:
		return stands, ""
	case l.Base.Spec != nil && records.Same(l.Base.Spec, given.Spec):
		return stands, ""
	}
	said := l.Spec
	if said == nil {
		said = l.Base.Spec
	}
	if !l.Gone && said != nil && given.Min == l.Replicas && sameButReplicas(said, given.Spec) {
		return agreed, ""
	}
	why = fmt.Sprintf("revision %d with %s here", given.Revision, instances(given.Min))
	if d := differences(said, given.Spec); len(d) > 0 && !l.Gone {
		why += "; other than the local change: " + strings.Join(d, ", ")
	}
	return overruled, why
}

// rootKnows are the applications that the root has told this cluster of.
func (m *model) rootKnows() map[string]bool {
	out := map[string]bool{}
	for _, s := range m.Given {
		out[s.App] = true
	}
	for _, r := range m.Far {
		out[r.App] = true
	}
	return out
}

// effect makes the shares that count, of what the root delegates and what was
// changed here: all of them, or those of the named services (app.service).
func (m *model) effect(keys ...string) {
	if len(keys) == 0 {
		keys = slices.AppendSeq(slices.Collect(maps.Keys(m.Given)), maps.Keys(m.locals))
		keys = slices.AppendSeq(keys, maps.Keys(m.Shares))
	}
	var known map[string]bool
	for _, key := range keys {
		s, l := m.Given[key], m.locals[key]
		if l != nil {
			if known == nil {
				known = m.rootKnows()
			}
			if f, _ := m.fate(l, known); f == stands {
				s = l.share(s)
			}
		}
		if s == nil {
			delete(m.Shares, key)
		} else {
			m.Shares[key] = m.rolls[key].on(m.again[key].on(m.scaled[key].on(s)))
		}
	}
}

// share is what counts while l stands; given is the root's, nil for none.
func (l *local) share(given *wire.Share) *wire.Share {
	if l.Gone {
		return nil
	}
	s := wire.Share{V: wire.Version, Namespace: l.Namespace, App: l.App, Service: l.Service}
	have := 0
	if given != nil {
		s = *given
		for _, sp := range given.Ordinals {
			have += max(0, sp.To-sp.From)
		}
	}
	s.Min, s.Max, s.Extra = l.Replicas, max(l.Replicas, l.Most), 0
	if l.Spec != nil {
		s.Spec, s.Revision = l.Spec, l.revision()
		s.Waves = "" // who changes something at a site does so without the root
	}
	if extra := s.Max - have; extra > 0 {
		s.Ordinals = append(slices.Clone(s.Ordinals), wire.Span{From: wire.LocalOrdinals, To: wire.LocalOrdinals + extra})
	}
	return &s
}

// weigh takes local changes back that the root has overtaken. What counts has
// changed already (effect); this keeps the books, and tells people.
func (t *tx) weigh(now time.Time) {
	for key := range t.m.again {
		if t.m.Shares[key] == nil {
			t.again[key] = nil // it is not here any more
		}
	}
	if len(t.m.locals) == 0 {
		return
	}
	known := t.m.rootKnows()
	for _, key := range records.SortedKeys(t.m.locals) {
		l := t.m.locals[key]
		f, why := t.m.fate(l, known)
		switch f {
		case agreed:
			t.locals[key] = nil
			t.Event("application/"+l.App, "%s: the root says now what %s had changed here (%s)", l.Service, l.By, t.m.words(l))
		case overruled:
			c := &conflict{V: wire.Version, Local: *l, Root: why, Found: now.Round(0)}
			if given := t.m.Given[key]; given != nil {
				c.RootRevision = given.Revision
			}
			t.locals[key] = nil
			t.conflicts[strconv.FormatUint(l.Number, 10)] = c
			t.Event("application/"+l.App, "conflict %d about %s: what %s changed here (%s) gives way to the root: %s", l.Number, l.Service, l.By, t.m.words(l), why)
		}
	}
	t.boundConflicts()
}

// boundConflicts drops the oldest beyond the bound.
func (t *tx) boundConflicts() {
	all := maps.Clone(t.m.conflicts)
	maps.Copy(all, t.conflicts)
	extra := len(all) - maxConflicts
	if extra <= 0 {
		return
	}
	ids := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return int(all[a].Local.Number) - int(all[b].Local.Number) })
	for _, id := range ids[:extra] {
		t.conflicts[id] = nil
		t.Event("application/"+all[id].Local.App, "conflict %s is forgotten without having been acknowledged: there are %d newer ones", id, maxConflicts)
	}
}

// words says what a local change is.
func (m *model) words(l *local) string {
	var did []string
	b := l.Base
	switch {
	case l.Gone:
		return "deleted"
	case b.Spec == nil:
		did = append(did, "created, "+instances(l.Replicas))
	case l.Replicas != b.Replicas:
		did = append(did, fmt.Sprintf("scaled %d → %d", b.Replicas, l.Replicas))
	}
	if l.Spec != nil && b.Spec != nil {
		did = append(did, "changed "+strings.Join(differences(b.Spec, l.Spec), ", "))
	}
	return strings.Join(did, "; ")
}

func instances(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return fmt.Sprintf("%d instances", n)
}

// view is a local change as people and the root see it.
func (m *model) localView(l *local) wire.LocalChange {
	v := wire.LocalChange{
		V: wire.Version, Cluster: m.Name, Namespace: l.Namespace, App: l.App, Service: l.Service, Change: m.words(l), By: l.By, At: l.At,
		Base: l.Base.Revision, Replicas: l.Replicas,
	}
	v.AppNumber = netlease.SiteNumber(m.Model, l.App)
	switch {
	case l.Spec != nil:
		v.Revision, v.Needs, v.Devices = l.revision(), l.Spec.Resources, l.Spec.Devices
	case l.Base.Spec != nil:
		v.Needs, v.Devices = l.Base.Spec.Resources, l.Base.Spec.Devices
	}
	return v
}

func (m *model) conflictView(id string, c *conflict) wire.Conflict {
	return wire.Conflict{LocalChange: m.localView(&c.Local), ID: id, Root: c.Root, RootRevision: c.RootRevision, Found: c.Found}
}

// localViews are the changes and conflicts of an application, of all where app is
// "". Conflicts are in the order in which the changes were made.
func (m *model) localViews(app string) wire.LocalView {
	v := wire.LocalView{Changes: []wire.LocalChange{}, Conflicts: []wire.Conflict{}}
	for _, key := range records.SortedKeys(m.locals) {
		if l := m.locals[key]; app == "" || l.App == app {
			v.Changes = append(v.Changes, m.localView(l))
		}
	}
	for id, c := range m.conflicts {
		if app == "" || c.Local.App == app {
			v.Conflicts = append(v.Conflicts, m.conflictView(id, c))
		}
	}
	slices.SortFunc(v.Conflicts, func(a, b wire.Conflict) int {
		return int(m.conflicts[a.ID].Local.Number) - int(m.conflicts[b.ID].Local.Number)
	})
	return v
}

// reportLocals derives what the root is told about changes that were made here.
func (t *tx) reportLocals() {
	want := map[string]*wire.LocalChange{}
	for key, l := range t.m.locals {
		if _, gone := t.locals[key]; !gone {
			v := t.m.localView(l)
			want[key] = &v
		}
	}
	diff(t.m.upLocals, want, t.upLocals)
	conflicts := map[string]*wire.Conflict{}
	for id, c := range t.m.conflicts {
		if _, gone := t.conflicts[id]; !gone {
			v := t.m.conflictView(id, c)
			conflicts[id] = &v
		}
	}
	for id, c := range t.conflicts {
		if c != nil {
			v := t.m.conflictView(id, c)
			conflicts[id] = &v
		}
	}
	diff(t.m.upConflicts, conflicts, t.upConflicts)
}

// diff notes in changes what leads from have to want; nil deletes.
func diff[T any](have, want, changes map[string]*T) {
	for key, v := range want {
		if old := have[key]; old == nil || !records.Same(old, v) {
			changes[key] = v
		}
	}
	for key := range have {
		if want[key] == nil {
			changes[key] = nil
		}
	}
}

// handingOver: i is of this site's own making and not wanted any more, but those
// that take over from it are still on their way.
func (t *tx) handingOver(i *wire.Instance, now time.Time) bool {
	s := t.m.Shares[i.App+"."+i.Service]
	if s == nil || i.Ordinal < wire.LocalOrdinals || i.State != wire.Running || !i.Ready {
		return false
	}
	for _, o := range ordinals(s) {
		n := t.Inst(instanceID(s.App, s.Service, o))
		if n == nil {
			continue
		}
		coming := n.State == wire.ClusterScheduled || n.State == wire.WorkerScheduled || (n.State == wire.Running && !n.Ready)
		if coming && max(now.Sub(n.Since), n.Since.Sub(now)) < handOver {
			return true
		}
	}
	return false
}

// rootHosts are what services of the root publish; nil where nothing was changed here, and
// nobody asks.
func (m *model) rootHosts() wire.Claims {
	if len(m.locals) == 0 {
		return nil
	}
	out := wire.Claims{}
	for key, r := range m.Far {
		out.Add(key, cmp.Or(r.Namespace, api.DefaultNamespace), r.Ports)
	}
	for key, s := range m.Given {
		out.Add(key, groupOf(s), s.Spec.Ports)
	}
	return out
}

// withoutHosts are the ports of a service that the root does not have here, less what
// cannot be published beside those of the root, which came later and count.
func (m *model) withoutHosts(s *wire.Share, taken wire.Claims) []api.Port {
	ports := s.Spec.Ports
	out := ports
	for n, p := range ports {
		if p.Ingress == nil {
			continue
		}
		if by, _, _ := taken.Conflict(s.App+"."+s.Service, groupOf(s), &p, m.publish); by != "" {
			if &out[0] == &ports[0] {
				out = slices.Clone(ports)
			}
			out[n].Ingress = nil
		}
	}
	return out
}

// lostHosts says in words which services changed here do not get a host that they
// publish.
func (m *model) lostHosts() (problems []string) {
	taken := m.rootHosts()
	for _, key := range records.SortedKeys(m.locals) {
		s := m.Shares[key]
		if s == nil || m.Given[key] != nil {
			continue
		}
		for _, p := range s.Spec.Ports {
			if by, why, _ := taken.Conflict(s.App+"."+s.Service, groupOf(s), &p, m.publish); by != "" {
				problems = append(problems, fmt.Sprintf("%s, which was made here, does not get what it publishes: %s", key, why))
			}
		}
	}
	return problems
}

// sameButReplicas compares what two services are, apart from how many.
func sameButReplicas(a, b *api.Service) bool {
	x, y := *a, *b
	x.Replicas, y.Replicas = api.Replicas{}, api.Replicas{}
	return records.Same(x, y)
}

// differences names the fields of a service in which b is not as a, but for how
// many are to run; none where one of them is nil.
func differences(a, b *api.Service) []string {
	if a == nil || b == nil {
		return nil
	}
	x, y := fields(a), fields(b)
	var out []string
	for name := range x {
		if string(x[name]) != string(y[name]) {
			out = append(out, name)
		}
	}
	for name := range y {
		if _, both := x[name]; !both {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func fields(s *api.Service) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	if b, err := json.Marshal(s); err == nil {
		_ = json.Unmarshal(b, &out) // it was an object just now
	}
	delete(out, "replicas")
	return out
}
