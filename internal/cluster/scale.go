package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// keyScaled + app.service is how many instances of it run here, of those that may.
const keyScaled = "scaled."

// fullFor is how long more instances than there was room for are not tried again.
const fullFor = 15 * time.Second

// scaled is how many instances of a service run here, where the requests decide.
type scaled struct {
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
	Last *wire.ScaleDecision `json:"last,omitempty"`
}

// bounds are between how many instances of a share the number is decided here.
type bounds struct {
	min, max, extra int
	toZero          bool
}

// boundsOf a share; false where its number is fixed. A share can be so small that its
// number cannot vary: what its requests ask for is told to the root all the same.
func boundsOf(s *wire.Share) (bounds, bool) {
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

// on is a share with as many instances as sc says.
func (sc *scaled) on(s *wire.Share) *wire.Share {
	b, ok := boundsOf(s)
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
	next.Ordinals = spans(choose(s.Ordinals, order, n))
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

// spans are ordinals as a share has them.
func spans(list []int) (out []wire.Span) {
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

// delegated is a share as the root or a change here has it, before it is decided how
// many of it run.
func (m *model) delegated(key string) *wire.Share {
	s := m.Given[key]
	if l := m.locals[key]; l != nil {
		if f, _ := m.fate(l, m.rootKnows()); f == stands {
			s = l.share(s)
		}
	}
	return s
}

// scale makes what the last epoch decided so: how many of each service run, and
// which.
func (t *tx) scale(now time.Time) {
	for key := range t.m.scaled {
		s := t.m.delegated(key)
		if s == nil {
			t.scaled[key] = nil
		} else if _, ok := boundsOf(s); !ok {
			t.scaled[key] = nil
		}
	}
	t.roomAgain(now)
	for _, key := range records.SortedKeys(t.m.wants) {
		s, w := t.m.delegated(key), t.m.wants[key]
		if s == nil {
			continue
		}
		b, ok := boundsOf(s)
		old := t.m.scaled[key]
		if next, changed := t.scaled[key]; changed {
			old = next
		}
		if !ok || old == nil && w.Decision.Want == 0 {
			continue
		}
		next := scaled{V: wire.Version, App: s.App, Service: s.Service}
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
			next.Want, next.Last, next.Order = d.Want, &d, t.preferred(s, w.Order)
			if was, is := b.count(from), b.count(d.Want); was != is {
				t.Event("service/"+key, "scaled from %d to %d: %s", was, is, d.Why)
			}
		}
		if old == nil || !records.Same(old, &next) {
			t.scaled[key] = &next
		}
	}
}

// roomAgain forgets after a while that there was no room, and at once where no more
// are wanted than there was room for.
func (t *tx) roomAgain(now time.Time) {
	for key, sc := range t.m.scaled {
		if sc.Fits == 0 || t.m.delegated(key) == nil {
			continue
		}
		b, _ := boundsOf(t.m.delegated(key))
		if now.Before(sc.Until) && sc.Until.Sub(now) <= fullFor && b.count(sc.Want) > sc.Fits {
			continue
		}
		next := *sc
		next.Fits, next.Until, next.Full = 0, time.Time{}, ""
		t.scaled[key] = &next
	}
}

// preferred is the order in which the instances of a share stay: as given, then those
// that are there, then the rest. What is on its way out comes last.
func (t *tx) preferred(s *wire.Share, order []int) []int {
	there := func(o int) int {
		i := t.Inst(instanceID(s.App, s.Service, o))
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
		return cmp.Or(cmp.Compare(place[a], place[b]), cmp.Compare(cmp.Or(rank[a], last), cmp.Or(rank[b], last)), cmp.Compare(a, b))
	})
	// What has never been is left out: the lowest of them come by themselves.
	return slices.DeleteFunc(all, func(o int) bool { return place[o] == 3 })
}

// full notes that there is no room for an instance beyond what must be here, and says
// whether that is so. It is not given back: its ordinal may be of use later.
func (t *tx) full(i *wire.Instance, reason string, now time.Time) bool {
	key := i.App + "." + i.Service
	s := t.m.delegated(key)
	if s == nil {
		return false
	}
	b, ok := boundsOf(s)
	if !ok {
		return false
	}
	sc := t.m.scaled[key]
	if sc == nil { // all of them are for others
		sc = &scaled{V: wire.Version, App: i.App, Service: i.Service}
	}
	has := 0
	for _, o := range ordinals(t.m.Shares[key]) {
		if other := t.Inst(instanceID(i.App, i.Service, o)); other != nil && other.Worker != "" && (other.State == wire.Running || other.State == wire.WorkerScheduled) {
			has++
		}
	}
	if has < b.least() || has >= b.count(sc.Want) {
		return false
	}
	next := *sc
	next.Fits, next.Until, next.Full = max(has, 1), now.Add(fullFor).Round(0), cut(reason, wire.MaxShortWords)
	next.Order = t.preferred(s, sc.Order)
	t.scaled[key] = &next
	t.Event("service/"+key, "%d of %d instances have room here: %s", has, b.count(sc.Want), reason)
	return true
}

// short is what this cluster lacks of a service: how many instances more its requests
// ask for than there is room for, or than may run here, and how many more the root
// has asked for on behalf of others. Its own come first.
func (m *model) short(key string) wire.ServiceShort {
	app, service, _ := strings.Cut(key, ".")
	out := wire.ServiceShort{App: app, Service: service}
	want := 0
	if w := m.wants[key]; w != nil {
		want = w.Decision.Want
	}
	s := m.delegated(key)
	if s == nil {
		out.Short = want
		return out
	}
	out.Max, out.Extra = s.Max, s.Extra
	b, ok := boundsOf(s)
	if !ok {
		out.Short = max(0, want-s.Max)
		return out
	}
	can := b.max
	if sc := m.scaled[key]; sc != nil && sc.Fits > 0 && max(sc.Fits, b.least()) < can {
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

// shortages are what the root is told of all services: of those that lack something,
// and of those that run for others. What was changed at the site is its own business.
func (m *model) shortages() []wire.ServiceShort {
	keys := map[string]bool{}
	for key := range m.wants {
		keys[key] = true
	}
	for key, s := range m.Given {
		if s.Extra > 0 {
			keys[key] = true
		}
	}
	var out []wire.ServiceShort
	for _, key := range records.SortedKeys(keys) {
		if m.siteDecides(key) {
			continue
		}
		if s := m.short(key); s.Short+s.Unmet+s.Extra > 0 {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b wire.ServiceShort) int {
		return cmp.Compare(b.Short+b.Unmet, a.Short+a.Unmet)
	})
	return out[:min(len(out), wire.MaxShort)]
}

// siteDecides says whether a change that was made here counts for a service.
func (m *model) siteDecides(key string) bool {
	l := m.locals[key]
	if l == nil {
		return false
	}
	f, _ := m.fate(l, m.rootKnows())
	return f == stands
}

// sleep is when an instance of a share sleeps, nil where it always runs.
func (t *tx) sleep(i *wire.Instance, s *wire.Share) *wire.Sleep {
	key := i.App + "." + i.Service
	given := t.m.delegated(key)
	if given == nil || given.Min > 0 || !s.Spec.Replicas.ToZero() {
		return nil
	}
	idle := api.DefaultIdle
	if s.Spec.Idle != nil {
		idle = *s.Spec.Idle
	}
	// It begins awake where the requests ask for it; once it is there, its worker
	// knows better.
	awake := given.Extra > 0 || standIn(i) // else nobody would see what it does
	if sc := t.m.scaled[key]; sc != nil {
		awake = awake || sc.Want > 0
	}
	if old := t.Ordered(i.Worker + "." + i.ID); old != nil && old.Incarnation == i.Incarnation && old.Sleep != nil {
		awake = old.Sleep.Awake
	}
	return &wire.Sleep{Idle: idle, Awake: awake}
}

// settledIn says whether an instance is as it should be: it answers, or sleeps until
// somebody asks.
func settledIn(i *wire.Instance) bool {
	return !i.Unreachable && (i.State == wire.Running && i.Ready || state.Asleep(i))
}
