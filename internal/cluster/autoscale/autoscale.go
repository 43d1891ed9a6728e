package autoscale

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// What is decided here.
var Table = table.Add(&state.Schema, records.Kind{
	Prefix: Key, Fate: records.Holds, Drop: "how many instances there are to be is decided anew by the requests",
}, table.Rules[Record]{Stage: table.First})

// Key + app.service is how many instances of it run here, of those that may.
const Key = "scaled."

// fullFor is how long more instances than there was room for are not tried again.
const fullFor = 15 * time.Second

// Record is how many instances of a service run here, where the requests decide.
type Record struct {
	V       int    `json:"v"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Want is what the requests that enter here ask for.
	Want int `json:"want"`
	// Order is in which order ordinals run, those that are to stay longest first.
	Order []int `json:"order,omitempty"`
	// Fits is how many there was room for until Until, 0 where it is not known.
	Fits  int       `json:"fits,omitempty"`
	Until time.Time `json:"until,omitzero"`
	Full  string    `json:"full,omitempty"` // why not for more
	// Last is the decision that made it so.
	Last *rpc.ScaleDecision `json:"last,omitempty"`
}

// bounds are between how many instances of a share the number is decided here.
type bounds struct {
	min, max, extra int
	toZero          bool
}

// BoundsOf a share; false where its number is fixed. A share can be so small that its
// number cannot vary: what its requests ask for is told to the root all the same.
func BoundsOf(s *wire.Share) (bounds, bool) {
	b := bounds{min: s.Min, max: s.Max, extra: s.Extra, toZero: s.Spec != nil && s.Spec.Replicas.ToZero()}
	return b, s.Max > s.Min || s.Spec != nil && s.Spec.Replicas.Elastic()
}

// least that are placed: of a service that may have none one that sleeps, so that a
// request finds it.
func (b bounds) least() int {
	if b.toZero {
		return min(max(b.min, 1), b.max)
	}
	return b.min
}

// count is how many are placed, if so many are wanted for the requests that enter
// here. Those that are there in any case serve others as well.
func (b bounds) count(want int) int {
	return min(max(want+b.extra, b.least()), b.max)
}

// On is a share with as many instances as sc says.
func (sc *Record) On(s *wire.Share) *wire.Share {
	b, ok := BoundsOf(s)
	if !ok {
		return s
	}
	n := b.count(0)
	var order []int
	if sc != nil {
		n, order = b.count(sc.Want), sc.Order
		if sc.Fits > 0 {
			n = min(n, max(sc.Fits, b.least()))
		}
	}
	next := *s
	next.Min, next.Max = n, n
	next.Ordinals = Spans(choose(s.Ordinals, order, n))
	return &next
}

// choose takes n ordinals of a share: those in order first, then the lowest.
func choose(from []wire.Span, order []int, n int) []int {
	in := func(o int) bool {
		return slices.ContainsFunc(from, func(sp wire.Span) bool { return o >= sp.From && o < sp.To })
	}
	out := make([]int, 0, n)
	for _, o := range order {
		if len(out) < n && in(o) && !slices.Contains(out, o) {
			out = append(out, o)
		}
	}
	for _, sp := range from {
		for o := sp.From; o < sp.To && len(out) < n; o++ {
			if !slices.Contains(out, o) {
				out = append(out, o)
			}
		}
	}
	return out
}

// Spans are ordinals as a share has them.
func Spans(list []int) (out []wire.Span) {
	list = slices.Clone(list)
	slices.Sort(list)
	for _, o := range list {
		if n := len(out); n > 0 && out[n-1].To == o {
			out[n-1].To++
		} else {
			out = append(out, wire.Span{From: o, To: o + 1})
		}
	}
	return out
}

// Delegated is a share as the root or a change here has it, before it is decided how
// many of it run.
func Delegated(m *state.Model, key string) *wire.Share {
	s := m.FromRoot[key]
	if l := localedit.Table.Rows(m.DB)[key]; l != nil {
		if f, _ := localedit.Fate(m, l, localedit.RootKnows(m)); f == localedit.Stands {
			s = l.Share(s)
		}
	}
	return s
}

// Scale makes what the last epoch decided so: how many of each service run, and
// which.
func Scale(t *state.Tx, now time.Time) {
	for key := range Table.Rows(t.Model.DB) {
		s := Delegated(t.Model, key)
		if s == nil {
			Table.Put(t.Rows, key, nil)
		} else if _, ok := BoundsOf(s); !ok {
			Table.Put(t.Rows, key, nil)
		}
	}
	roomAgain(t, now)
	for _, key := range records.SortedKeys(Memory(t.Model).Wants) {
		s, w := Delegated(t.Model, key), Memory(t.Model).Wants[key]
		if s == nil {
			continue
		}
		b, ok := BoundsOf(s)
		old := Table.Get(t.Rows, key)
		if !ok || old == nil && w.Decision.Want == 0 {
			continue
		}
		next := Record{V: wire.Version, App: s.App, Service: s.Service}
		if old != nil {
			next = *old
		}
		if next.Fits > 0 && b.count(w.Decision.Want) <= next.Fits {
			next.Fits, next.Until, next.Full = 0, time.Time{}, ""
		}
		if old == nil || next.Want != w.Decision.Want {
			from := 0
			if old != nil {
				from = old.Want
			}
			d := w.Decision
			next.Want, next.Last, next.Order = d.Want, &d, preferred(t, s, w.Order)
			if was, is := b.count(from), b.count(d.Want); was != is {
				t.Event(event.ServiceScaled, key, "scaled from %d to %d: %s", was, is, d.Why)
			}
		}
		Table.Put(t.Rows, key, &next)
	}
}

// roomAgain forgets after a while that there was no room, and at once where no more
// are wanted than there was room for.
func roomAgain(t *state.Tx, now time.Time) {
	for key, sc := range Table.Rows(t.Model.DB) {
		if sc.Fits == 0 || Delegated(t.Model, key) == nil {
			continue
		}
		b, _ := BoundsOf(Delegated(t.Model, key))
		if now.Before(sc.Until) && sc.Until.Sub(now) <= fullFor && b.count(sc.Want) > sc.Fits {
			continue
		}
		next := *sc
		next.Fits, next.Until, next.Full = 0, time.Time{}, ""
		Table.Put(t.Rows, key, &next)
	}
}

// preferred is the order in which the instances of a share stay: as given, then those
// that are there, then the rest. What is on its way out comes last.
func preferred(t *state.Tx, s *wire.Share, order []int) []int {
	there := func(o int) int {
		i := t.Inst(state.InstanceID(s.App, s.Service, o))
		switch {
		case i == nil:
			return 3
		case i.Draining:
			return 4
		case i.State == wire.Running && i.Ready:
			return 0
		case i.Asleep:
			return 2
		}
		return 1
	}
	rank := map[int]int{}
	for n, o := range order {
		rank[o] = n + 1
	}
	var all []int
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To; o++ {
			all = append(all, o)
		}
	}
	place := make(map[int]int, len(all))
	for _, o := range all {
		place[o] = there(o)
	}
	slices.SortStableFunc(all, func(a, b int) int {
		last := len(order) + 1
		return cmp.Or(cmp.Compare(place[a], place[b]), cmp.Compare(cmp.Or(rank[a], last), cmp.Or(rank[b], last)),
			cmp.Compare(a, b))
	})
	// What has never been is left out: the lowest of them come by themselves.
	return slices.DeleteFunc(all, func(o int) bool { return place[o] == 3 })
}

// Full notes that there is no room for an instance beyond what must be here, and says
// whether that is so. It is not given back: its ordinal may be of use later.
func Full(t *state.Tx, i *wire.Instance, reason string, now time.Time) bool {
	key := i.App + "." + i.Service
	s := Delegated(t.Model, key)
	if s == nil {
		return false
	}
	b, ok := BoundsOf(s)
	if !ok {
		return false
	}
	sc := Table.Rows(t.Model.DB)[key]
	if sc == nil { // all of them are for others
		sc = &Record{V: wire.Version, App: i.App, Service: i.Service}
	}
	has := 0
	for _, o := range state.Ordinals(t.Model.Shares[key]) {
		if other := t.Inst(state.InstanceID(i.App, i.Service, o)); other != nil && other.Worker != "" &&
			(other.State == wire.Running || other.State == wire.WorkerScheduled) {
			has++
		}
	}
	if has < b.least() || has >= b.count(sc.Want) {
		return false
	}
	next := *sc
	next.Fits, next.Until, next.Full = max(has, 1), now.Add(fullFor).Round(0), state.Cut(reason, wire.MaxShortWords)
	next.Order = preferred(t, s, sc.Order)
	Table.Put(t.Rows, key, &next)
	t.Event(event.ServiceNoRoom, key, "%d of %d instances have room here: %s", has, b.count(sc.Want), reason)
	return true
}

// Short is what this cluster lacks of a service: how many instances more its requests
// ask for than there is room for, or than may run here, and how many more the root
// has asked for on behalf of others. Its own come first.
func Short(m *state.Model, key string) wire.ServiceShort {
	app, service, _ := strings.Cut(key, ".")
	out := wire.ServiceShort{App: app, Service: service}
	want := 0
	if w := Memory(m).Wants[key]; w != nil {
		want = w.Decision.Want
	}
	s := Delegated(m, key)
	if s == nil {
		out.Short = want
		return out
	}
	out.Max, out.Extra = s.Max, s.Extra
	b, ok := BoundsOf(s)
	if !ok {
		out.Short = max(0, want-s.Max)
		return out
	}
	can := b.max
	if sc := Table.Rows(m.DB)[key]; sc != nil && sc.Fits > 0 && max(sc.Fits, b.least()) < can {
		can = max(sc.Fits, b.least())
		out.Full = sc.Full
	}
	out.Short = max(0, want-can)
	out.Unmet = max(0, b.extra-max(0, can-want))
	if out.Short+out.Unmet == 0 {
		out.Full = ""
	}
	return out
}

// Shortages are what the root is told of all services: of those that lack something,
// and of those that run for others. What was changed at the site is its own business.
func Shortages(m *state.Model) []wire.ServiceShort {
	keys := map[string]bool{}
	for key := range Memory(m).Wants {
		keys[key] = true
	}
	for key, s := range m.FromRoot {
		if s.Extra > 0 {
			keys[key] = true
		}
	}
	var out []wire.ServiceShort
	for _, key := range records.SortedKeys(keys) {
		if SiteDecides(m, key) {
			continue
		}
		if s := Short(m, key); s.Short+s.Unmet+s.Extra > 0 {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b wire.ServiceShort) int {
		return cmp.Compare(b.Short+b.Unmet, a.Short+a.Unmet)
	})
	return out[:min(len(out), wire.MaxShort)]
}

// SiteDecides says whether a change that was made here counts for a service.
func SiteDecides(m *state.Model, key string) bool {
	l := localedit.Table.Rows(m.DB)[key]
	if l == nil {
		return false
	}
	f, _ := localedit.Fate(m, l, localedit.RootKnows(m))
	return f == localedit.Stands
}

// SettledIn says whether an instance is as it should be: it answers, or sleeps until
// somebody asks.
func SettledIn(i *wire.Instance) bool {
	return !i.Unreachable && (i.State == wire.Running && i.Ready || state.Asleep(i))
}

// Known is what this process knows beside what is stored.
type Known struct {
	// Wants is what the last epoch decided of services that were asked for lately.
	Wants map[string]*Want
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{Wants: map[string]*Want{}} },
	Clone: func(k *Known) *Known {
		return &Known{Wants: maps.Clone(k.Wants)}
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
