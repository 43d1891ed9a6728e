package localedit

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
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/standing"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of a cluster's store.
const (
	Key         = "local."    // + app.service: local
	KeyConflict = "conflict." // + number of the local change: conflict
	KeyAgain    = "again."    // + app.service: again
	KeyCount    = "locals"    // how many local changes there have been

	// + app.service: wire.LocalChange; + number: wire.Conflict, for the root. No id of
	// an instance has a slash.
	KeyUpLocal    = state.KeyUp + wire.ReportedLocal
	KeyUpConflict = state.KeyUp + wire.ReportedConflict
)

// Changes is how many local changes there have been.
func Changes(m *state.Model) uint64 {
	if n := CountTable.One(m.DB); n != nil {
		return *n
	}
	return 0
}

func inLocal[T any](key string, _ *T) string { return "local/" + key }

// conflict is stored with the change that it was.
func inConflict(key string, c *Conflict) string {
	if c == nil {
		return "conflict/" + key
	}
	return inLocal(c.Local.key(), c)
}

var (
	// Table is the changes that hold, by application and service.
	Table = table.Add(&state.Schema, records.Kind{
		Prefix: Key, Fate: records.Holds,
		Drop: "what was changed here of the service while the root was away is forgotten: what the root says " +
			"counts, and what was begun here alone ends",
	}, table.Rules[Change]{Group: inLocal[Change]})
	// ConflictTable is the changes that the root refused, by their number.
	ConflictTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyConflict, Fate: records.Holds, Drop: "the conflict is forgotten",
	}, table.Rules[Conflict]{Group: inConflict})
	// AgainTable is the restarts that were asked for here, by application and service.
	AgainTable = table.Add[Again](&state.Schema, records.Kind{
		Prefix: KeyAgain, Fate: records.Holds,
		Drop: "a restart that was asked for here is not done where it has not been yet",
	})
	// CountTable is how many changes there have been.
	CountTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyCount, Fate: records.Holds, Instead: highCount,
		Drop: "changes made here are counted from a higher number",
	}, table.Rules[uint64]{Single: true})
	// UpLocalTable is what the root is told of changes.
	UpLocalTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyUpLocal, Fate: records.Again, Drop: state.UpDrop,
	}, table.Rules[wire.LocalChange]{Group: inLocal[wire.LocalChange]})
	// UpConflictTable is what the root is told of conflicts.
	UpConflictTable = table.Add[wire.Conflict](&state.Schema,
		records.Kind{Prefix: KeyUpConflict, Fate: records.Again, Drop: state.UpDrop})
)

// highCount is more local changes than any cluster has had: two of them never have the same
// number.
func highCount(now time.Time) ([]byte, error) { return json.Marshal(uint64(max(1, now.Unix()))) }

// Bounds of what is kept about changes that were made here.
const (
	MaxChanges   = 1000
	MaxConflicts = 100
)

// handOver is how long instances that this site made by itself stay while the
// root's, which take over from them, start.
const handOver = time.Minute

// Change is a change of one service that an operator made here.
type Change struct {
	V         int    `json:"v"`
	Namespace string `json:"namespace,omitempty"`
	App       string `json:"app"`
	Service   string `json:"service"`
	// Number of the change; they are counted over all services.
	Number uint64 `json:"number"`
	Base   Base   `json:"base"`
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

// Base is what the root said when a local change was made: nothing of it counts
// but whether it says the same today.
type Base struct {
	Revision uint64       `json:"revision,omitempty"`
	Replicas int          `json:"replicas,omitempty"`
	Spec     *api.Service `json:"spec,omitempty"` // nil: the service was not delegated to this cluster
	// Known: the root has the application, be it in other clusters only.
	Known bool `json:"known,omitempty"`
}

// Conflict is a local change that gave way, as it is stored.
type Conflict struct {
	V            int       `json:"v"`
	Local        Change    `json:"local"`
	Root         string    `json:"root"`
	RootRevision uint64    `json:"root_revision,omitempty"`
	Found        time.Time `json:"found"`
}

func (l *Change) key() string { return l.App + "." + l.Service }

// Revision that instances of the change carry.
func (l *Change) Revision() uint64 {
	if l.Spec == nil {
		return l.Base.Revision
	}
	return wire.LocalRevisions + l.Number
}

// fate is what becomes of a local change in view of what the root says now.
type fate int

const (
	// Stands is the fate of a change that holds.
	Stands    fate = iota // the root has not said anything new about the service
	agreed                // the root says the same now
	overruled             // the root says something else: that counts
)

// Fate judges a local change. why says in words what the root says now, where that
// is something else. rootKnows says which applications the root has.
func Fate(m *state.Model, l *Change, rootKnows map[string]bool) (_ fate, why string) {
	given := m.FromRoot[l.key()]
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
		return Stands, ""
	case l.Base.Spec != nil && records.Same(l.Base.Spec, given.Spec):
		return Stands, ""
	}
	said := l.Spec
	if said == nil {
		said = l.Base.Spec
	}
	if !l.Gone && said != nil && given.Min == l.Replicas && SameButReplicas(said, given.Spec) {
		return agreed, ""
	}
	why = fmt.Sprintf("revision %d with %s here", given.Revision, CountInstances(given.Min))
	if d := differences(said, given.Spec); len(d) > 0 && !l.Gone {
		why += "; other than the local change: " + strings.Join(d, ", ")
	}
	return overruled, why
}

// RootKnows are the applications that the root has told this cluster of.
func RootKnows(m *state.Model) map[string]bool {
	out := map[string]bool{}
	for _, s := range m.FromRoot {
		out[s.App] = true
	}
	for _, r := range m.Far {
		out[r.App] = true
	}
	return out
}

// Share is what counts while l stands; given is the root's, nil for none.
func (l *Change) Share(given *wire.Share) *wire.Share {
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
		s.Spec, s.Revision = l.Spec, l.Revision()
		s.Waves = "" // who changes something at a site does so without the root
	}
	if extra := s.Max - have; extra > 0 {
		s.Ordinals = append(slices.Clone(s.Ordinals),
			wire.Span{From: wire.LocalOrdinals, To: wire.LocalOrdinals + extra})
	}
	return &s
}

// Weigh takes local changes back that the root has overtaken. What counts has
// changed already (effect); this keeps the books, and tells people.
func Weigh(t *state.Tx, now time.Time) {
	for key := range AgainTable.Rows(t.Model.DB) {
		if t.Model.Shares[key] == nil {
			AgainTable.Put(t.Rows, key, nil) // it is not here any more
		}
	}
	if len(Table.Rows(t.Model.DB)) == 0 {
		return
	}
	known := RootKnows(t.Model)
	for _, key := range records.SortedKeys(Table.Rows(t.Model.DB)) {
		l := Table.Rows(t.Model.DB)[key]
		f, why := Fate(t.Model, l, known)
		switch f {
		case agreed:
			Table.Put(t.Rows, key, nil)
			t.Event(event.LocalAgreed, l.App, "%s: the root says now what %s had changed here (%s)", l.Service, l.By,
				Describe(l))
		case overruled:
			c := &Conflict{V: wire.Version, Local: *l, Root: why, Found: now.Round(0)}
			if given := t.Model.FromRoot[key]; given != nil {
				c.RootRevision = given.Revision
			}
			Table.Put(t.Rows, key, nil)
			ConflictTable.Put(t.Rows, strconv.FormatUint(l.Number, 10), c)
			t.Event(event.LocalOverruled, l.App,
				"conflict %d about %s: what %s changed here (%s) gives way to the root: %s", l.Number, l.Service,
				l.By, Describe(l), why)
		}
	}
	boundConflicts(t)
}

// boundConflicts drops the oldest beyond the bound.
func boundConflicts(t *state.Tx) {
	all := maps.Clone(ConflictTable.Rows(t.Model.DB))
	maps.Copy(all, ConflictTable.Changes(t.Rows))
	extra := len(all) - MaxConflicts
	if extra <= 0 {
		return
	}
	ids := slices.SortedFunc(maps.Keys(all),
		func(a, b string) int { return int(all[a].Local.Number) - int(all[b].Local.Number) })
	for _, id := range ids[:extra] {
		ConflictTable.Put(t.Rows, id, nil)
		t.Event(event.LocalForgotten, all[id].Local.App,
			"conflict %s is forgotten without having been acknowledged: there are %d newer ones", id, MaxConflicts)
	}
}

// Describe says what a local change is.
func Describe(l *Change) string {
	var did []string
	b := l.Base
	switch {
	case l.Gone:
		return "deleted"
	case b.Spec == nil:
		did = append(did, "created, "+CountInstances(l.Replicas))
	case l.Replicas != b.Replicas:
		did = append(did, fmt.Sprintf("scaled %d → %d", b.Replicas, l.Replicas))
	}
	if l.Spec != nil && b.Spec != nil {
		did = append(did, "changed "+strings.Join(differences(b.Spec, l.Spec), ", "))
	}
	return strings.Join(did, "; ")
}

// CountInstances is a number of instances in words.
func CountInstances(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return fmt.Sprintf("%d instances", n)
}

// view is a local change as people and the root see it.
func view(m *state.Model, l *Change) wire.LocalChange {
	v := wire.LocalChange{
		V: wire.Version, Cluster: m.Name, Namespace: l.Namespace, App: l.App, Service: l.Service,
		Change: Describe(l), By: l.By, At: l.At,
		Base: l.Base.Revision, Replicas: l.Replicas,
	}
	v.AppNumber = netlease.SiteNumber(m, l.App)
	switch {
	case l.Spec != nil:
		v.Revision, v.Needs, v.Devices = l.Revision(), l.Spec.Resources, l.Spec.Devices
	case l.Base.Spec != nil:
		v.Needs, v.Devices = l.Base.Spec.Resources, l.Base.Spec.Devices
	}
	return v
}

func conflictView(m *state.Model, id string, c *Conflict) wire.Conflict {
	return wire.Conflict{LocalChange: view(m, &c.Local), ID: id, Root: c.Root, RootRevision: c.RootRevision,
		Found: c.Found}
}

// Views are the changes and conflicts of an application, of all where app is
// "". Conflicts are in the order in which the changes were made.
func Views(m *state.Model, app string) apiv1.LocalView {
	v := apiv1.LocalView{Changes: []wire.LocalChange{}, Conflicts: []wire.Conflict{}}
	for _, key := range records.SortedKeys(Table.Rows(m.DB)) {
		if l := Table.Rows(m.DB)[key]; app == "" || l.App == app {
			v.Changes = append(v.Changes, view(m, l))
		}
	}
	for id, c := range ConflictTable.Rows(m.DB) {
		if app == "" || c.Local.App == app {
			v.Conflicts = append(v.Conflicts, conflictView(m, id, c))
		}
	}
	slices.SortFunc(v.Conflicts, func(a, b wire.Conflict) int {
		return int(ConflictTable.Rows(m.DB)[a.ID].Local.Number) - int(ConflictTable.Rows(m.DB)[b.ID].Local.Number)
	})
	return v
}

// Report derives what the root is told about changes that were made here.
func Report(t *state.Tx) {
	want := map[string]*wire.LocalChange{}
	for key, l := range Table.Rows(t.Model.DB) {
		if _, gone := Table.Changes(t.Rows)[key]; !gone {
			v := view(t.Model, l)
			want[key] = &v
		}
	}
	Diff(UpLocalTable.Rows(t.Model.DB), want, UpLocalTable.Changes(t.Rows))
	conflicts := map[string]*wire.Conflict{}
	for id, c := range ConflictTable.Rows(t.Model.DB) {
		if _, gone := ConflictTable.Changes(t.Rows)[id]; !gone {
			v := conflictView(t.Model, id, c)
			conflicts[id] = &v
		}
	}
	for id, c := range ConflictTable.Changes(t.Rows) {
		if c != nil {
			v := conflictView(t.Model, id, c)
			conflicts[id] = &v
		}
	}
	Diff(UpConflictTable.Rows(t.Model.DB), conflicts, UpConflictTable.Changes(t.Rows))
}

// Diff notes in changes what leads from have to want; nil deletes.
func Diff[T any](have, want, changes map[string]*T) {
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

// HandingOver reports whether i is of this site's own making and not wanted any more, but those
// that take over from it are still on their way.
func HandingOver(t *state.Tx, i *wire.Instance, now time.Time) bool {
	s := t.Model.Shares[i.App+"."+i.Service]
	if s == nil || i.Ordinal < wire.LocalOrdinals || i.State != wire.Running || !i.Ready {
		return false
	}
	for _, o := range state.Ordinals(s) {
		n := t.Inst(state.InstanceID(s.App, s.Service, o))
		if n == nil {
			continue
		}
		coming := n.State == wire.ClusterScheduled || n.State == wire.WorkerScheduled ||
			(n.State == wire.Running && !n.Ready)
		if coming && max(now.Sub(n.Since), n.Since.Sub(now)) < handOver {
			return true
		}
	}
	return false
}

// RootHosts are what services of the root publish; nil where nothing was changed here, and
// nobody asks.
func RootHosts(m *state.Model) standing.Claims {
	if len(Table.Rows(m.DB)) == 0 {
		return nil
	}
	out := standing.Claims{}
	for key, r := range m.Far {
		out.Add(key, cmp.Or(r.Namespace, api.DefaultNamespace), r.Ports)
	}
	for key, s := range m.FromRoot {
		out.Add(key, state.GroupOf(s), s.Spec.Ports)
	}
	return out
}

// WithoutHosts are the ports of a service that the root does not have here, less what
// cannot be published beside those of the root, which came later and count.
func WithoutHosts(m *state.Model, s *wire.Share, taken standing.Claims) []api.Port {
	ports := s.Spec.Ports
	out := ports
	for n, p := range ports {
		if p.Ingress == nil {
			continue
		}
		if by, _, _ := taken.Conflict(s.App+"."+s.Service, state.GroupOf(s), &p, m.Publish()); by != "" {
			if &out[0] == &ports[0] {
				out = slices.Clone(ports)
			}
			out[n].Ingress = nil
		}
	}
	return out
}

// LostHosts says in words which services changed here do not get a host that they
// publish.
func LostHosts(m *state.Model) (problems []string) {
	taken := RootHosts(m)
	for _, key := range records.SortedKeys(Table.Rows(m.DB)) {
		s := m.Shares[key]
		if s == nil || m.FromRoot[key] != nil {
			continue
		}
		for _, p := range s.Spec.Ports {
			if by, why, _ := taken.Conflict(s.App+"."+s.Service, state.GroupOf(s), &p, m.Publish()); by != "" {
				problems = append(problems,
					fmt.Sprintf("%s, which was made here, does not get what it publishes: %s", key, why))
			}
		}
	}
	return problems
}

// SameButReplicas compares what two services are, apart from how many.
func SameButReplicas(a, b *api.Service) bool {
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
