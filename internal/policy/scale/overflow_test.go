package scale

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

func gave(gives []rpc.Give) string {
	var b strings.Builder
	for _, g := range gives {
		fmt.Fprintf(&b, "%s→%s=%d ", g.From, g.To, g.N)
	}
	return strings.TrimSpace(b.String())
}

func TestHold(t *testing.T) {
	now := time.Unix(0, 0)
	h := Hold{}
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	for _, c := range []struct{ s, n, want int }{
		{0, 3, 3}, {1, 1, 3}, {5, 2, 3}, {19, 0, 3}, {21, 0, 2}, // the most of the lull
		{22, 0, 2}, {41, 1, 2}, {42, 0, 1}, {43, 5, 5}, {44, 0, 5}, {45, 5, 5}, {64, 0, 5}, {83, 0, 5}, {84, 0, 0},
	} {
		h.See(c.n, at(c.s), 20*time.Second)
		if h.N != c.want {
			t.Fatalf("at %d s with %d: %d, want %d", c.s, c.n, h.N, c.want)
		}
	}
	if h.Waits() {
		t.Error("it waits for nothing")
	}
}

func TestSpill(t *testing.T) {
	full := "no worker has 1Gi"
	a := Site{Name: "a", Heard: true, Short: 3, Full: full, Max: 1, Rights: 1, Used: 1}
	b := Site{Name: "b", Heard: true, Rights: 7, Room: 9}
	c := Site{Name: "c", Heard: true, Room: 20}
	with := func(s Site, change func(*Site)) Site { change(&s); return s }
	near := func(s Site, name string) Site {
		s.Km = map[string]float64{name: 10}
		return s
	}
	for name, x := range map[string]struct {
		before       []rpc.Give
		sites        []Site
		free         int
		gives, moved string
		unserved     string
	}{
		"to the only one":             {sites: []Site{a, b}, gives: "a→b=3"},
		"room first where no map":     {sites: []Site{a, b, c}, gives: "a→c=3", moved: "take b 3"},
		"the nearest":                 {sites: []Site{near(a, "b"), b, c}, gives: "a→b=3"},
		"then the next":               {sites: []Site{near(a, "b"), with(b, func(s *Site) { s.Room = 2 }), c}, gives: "a→b=2 a→c=1", moved: "take b 1"},
		"free rights at once":         {sites: []Site{a, with(b, func(s *Site) { s.Rights = 1 })}, free: 6, gives: "a→b=3", moved: "assign b 2"},
		"never above what there is":   {sites: []Site{a, with(b, func(s *Site) { s.Rights, s.Used = 2, 1 })}, gives: "a→b=1", unserved: "for 2: as many run as the service may have"},
		"not to who may not":          {sites: []Site{a, with(b, func(s *Site) { s.Barred = "is not fog" })}, unserved: "for 3: no other cluster may run it: b is not fog"},
		"not to who is full":          {sites: []Site{a, with(b, func(s *Site) { s.Room = 0 })}, unserved: "for 3: no other cluster has room either"},
		"not to who rests":            {sites: []Site{a, with(b, func(s *Site) { s.Resting = true })}, unserved: "for 3: no other cluster has room either"},
		"alone":                       {sites: []Site{a}, unserved: "for 3: there is no other cluster"},
		"what is enough goes on":      {before: []rpc.Give{{From: "a", To: "c", N: 3}}, sites: []Site{near(a, "b"), b, with(c, func(s *Site) { s.Rights, s.Used, s.Extra = 3, 3, 3 })}, gives: "a→c=3"},
		"fewer: the farthest":         {before: []rpc.Give{{From: "a", To: "b", N: 2}, {From: "a", To: "c", N: 3}}, sites: []Site{near(a, "b"), b, with(c, func(s *Site) { s.Rights, s.Used, s.Extra = 3, 3, 3 })}, gives: "a→b=2 a→c=1"},
		"over":                        {before: []rpc.Give{{From: "a", To: "b", N: 2}}, sites: []Site{with(a, func(s *Site) { s.Short = 0 }), b}, gives: ""},
		"not heard stays":             {before: []rpc.Give{{From: "a", To: "b", N: 2}}, sites: []Site{with(a, func(s *Site) { s.Short, s.Heard = 0, false }), b}, gives: "a→b=2"},
		"removed":                     {before: []rpc.Give{{From: "x", To: "b", N: 2}, {From: "a", To: "x", N: 3}}, sites: []Site{a, b}, gives: "a→b=3"},
		"a target that is lost":       {before: []rpc.Give{{From: "a", To: "b", N: 3}}, sites: []Site{a, with(b, func(s *Site) { s.Heard, s.Gone = false, true }), with(c, func(s *Site) { s.Rights = 7 })}, gives: "a→c=3"},
		"it tried and had no room":    {before: []rpc.Give{{From: "a", To: "b", N: 3}}, sites: []Site{a, with(b, func(s *Site) { s.Extra, s.Unmet, s.Full, s.Used = 3, 2, "full", 1 }), c}, gives: "a→b=1 a→c=2", moved: "take b 2"},
		"rights where the demand is":  {sites: []Site{with(a, func(s *Site) { s.Full, s.Room = "", 5 }), b}, gives: "", moved: "take b 3"},
		"home as far as there's room": {sites: []Site{with(a, func(s *Site) { s.Full, s.Room = "", 1 }), b}, gives: "a→b=2", moved: "take b 1"},
		"given since it counted":      {sites: []Site{with(a, func(s *Site) { s.Full, s.Room, s.Rights = "", 5, 4 }), with(b, func(s *Site) { s.Rights = 4 })}, gives: ""},
	} {
		out := Spill(x.before, x.sites, x.free, 0)
		moved := ""
		for _, n := range slices.Sorted(maps.Keys(out.Assign)) {
			moved += fmt.Sprintf("assign %s %d ", n, out.Assign[n])
		}
		for _, n := range slices.Sorted(maps.Keys(out.Take)) {
			moved += fmt.Sprintf("take %s %d ", n, out.Take[n])
		}
		if gave(out.Gives) != x.gives || strings.TrimSpace(moved) != x.moved || out.Unserved["a"] != x.unserved {
			t.Errorf("%s: %q, %q, %q; want %q, %q, %q", name, gave(out.Gives), strings.TrimSpace(moved), out.Unserved["a"], x.gives, x.moved, x.unserved)
		}
	}
	out := Spill(nil, []Site{a, b}, 0, 0)
	if want := "a has no room: " + full; out.Gives[0].Why != want {
		t.Errorf("why: %q, want %q", out.Gives[0].Why, want)
	}
}

// fleet is a few clusters that do as they are told, with more or less demand.
type fleet struct {
	r     *rand.Rand
	max   int
	free  int
	sites []Site

	room  []int // what each has room for at most
	want  []int
	gives []rpc.Give
	going []int // rights that a cluster is giving up
}

func newFleet(seed uint64) *fleet {
	r := rand.New(rand.NewPCG(seed, 1))
	f := &fleet{r: r, max: 1 + r.IntN(12)}
	f.free = f.max
	for i := range 2 + r.IntN(4) {
		s := Site{Name: string(rune('a' + i)), Heard: true, Km: map[string]float64{}}
		for j := range 6 {
			if r.IntN(2) == 0 {
				s.Km[string(rune('a'+j))] = float64(r.IntN(100))
			}
		}
		if r.IntN(5) == 0 {
			s.Barred = "is not fog"
		}
		n := r.IntN(f.free + 1)
		s.Rights, f.free = n, f.free-n
		f.sites = append(f.sites, s)
		f.room, f.want, f.going = append(f.room, r.IntN(8)), append(f.want, r.IntN(8)), append(f.going, 0)
	}
	return f
}

// obey lets each cluster do what it was told, and say what it lacks.
func (f *fleet) obey() {
	for i := range f.sites {
		s := &f.sites[i]
		f.free, f.going[i] = f.free+f.going[i], 0
		extra := Extra(f.gives, s.Name)
		can := min(s.Rights, f.room[i])
		s.Full = ""
		if f.room[i] < s.Rights && f.want[i]+extra > f.room[i] {
			s.Full = "full"
		}
		s.Used = min(can, f.want[i]+extra)
		s.Short, s.Unmet = max(0, f.want[i]-can), max(0, extra-max(0, can-f.want[i]))
		s.Max, s.Extra, s.Room = s.Rights, extra, f.room[i]-s.Used
		if s.Barred != "" {
			s.Room = 0
		}
	}
}

func (f *fleet) decide() (changed bool) {
	coming := 0
	for _, n := range f.going {
		coming += n
	}
	before := slices.Clone(f.sites)
	out := Spill(f.gives, f.sites, f.free, coming)
	if !reflect.DeepEqual(before, f.sites) {
		panic("it changed its arguments")
	}
	changed = gave(out.Gives) != gave(f.gives) || len(out.Assign)+len(out.Take) > 0
	f.gives = out.Gives
	for i := range f.sites {
		s := &f.sites[i]
		f.free -= out.Assign[s.Name]
		s.Rights += out.Assign[s.Name] - out.Take[s.Name]
		f.going[i] += out.Take[s.Name]
	}
	return changed
}

// Whatever the demand: what is given is sane in each step, what is decided comes to
// rest, what can be served then is, and without demand nothing is given.
func TestSpillComesToRest(t *testing.T) {
	for seed := range uint64(3000) {
		f := newFleet(seed)
		for phase := range 4 {
			if phase == 3 {
				for i := range f.want {
					f.want[i] = 0
				}
			} else if phase > 0 {
				f.want[f.r.IntN(len(f.want))] = f.r.IntN(10)
			}
			rest := false
			for range 40 {
				f.obey()
				again := Spill(f.gives, f.sites, f.free, 0)
				if shuffled := slices.Clone(f.sites); true {
					f.r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
					if other := Spill(f.gives, shuffled, f.free, 0); !reflect.DeepEqual(again, other) {
						t.Fatalf("seed %d: it depends on the order:\n%+v\n%+v", seed, again, other)
					}
				}
				changed := f.decide()
				f.sane(t, seed)
				if rest = !changed; rest {
					break
				}
			}
			if !rest {
				t.Fatalf("seed %d, phase %d: it does not come to rest: %s %+v", seed, phase, gave(f.gives), f.sites)
			}
			f.served(t, seed, phase)
		}
		if len(f.gives) > 0 {
			t.Fatalf("seed %d: given without demand: %s", seed, gave(f.gives))
		}
	}
}

func (f *fleet) sane(t *testing.T, seed uint64) {
	t.Helper()
	sum := f.free
	for i := range f.sites {
		s := &f.sites[i]
		sum += s.Rights + f.going[i]
		if s.Rights < s.Used {
			t.Fatalf("seed %d: %s lost rights that it uses: %+v", seed, s.Name, f.sites)
		}
		if n := Extra(f.gives, s.Name); n > 0 && s.Barred != "" {
			t.Fatalf("seed %d: given to %s, which may not", seed, s.Name)
		} else if n > f.max {
			t.Fatalf("seed %d: %d given to %s of %d", seed, n, s.Name, f.max)
		}
	}
	if sum != f.max || f.free < 0 {
		t.Fatalf("seed %d: %d rights, of %d: %+v", seed, sum, f.max, f.sites)
	}
}

// served: if some demand has no place at rest, there are no rights left or no room.
func (f *fleet) served(t *testing.T, seed uint64, phase int) {
	t.Helper()
	short, left, room := 0, f.free, 0
	for i := range f.sites {
		s := &f.sites[i]
		short += max(0, s.Short-f.elsewhere(s.Name))
		left += s.Rights - s.Used
		if s.Barred == "" {
			room += f.room[i] - s.Used
		}
	}
	if short > 0 && left > 0 && room > 0 {
		t.Fatalf("seed %d, phase %d: %d have no place, with %d rights and room for %d: %s\n%+v", seed, phase, short, left, room, gave(f.gives), f.sites)
	}
}

func (f *fleet) elsewhere(name string) (n int) {
	for _, g := range f.gives {
		if g.From == name {
			n += g.N
		}
	}
	return n
}

// An expected reason gives way to the real one, also where the version before has stored it
// without Expected; a real one stays.
func TestSpillExpectedReason(t *testing.T) {
	a := Site{Name: "a", Heard: true, Short: 3, Full: "no worker has 1Gi", Max: 1, Rights: 1, Used: 1}
	b := Site{Name: "b", Heard: true, Rights: 7, Room: 9}
	for name, x := range map[string]struct {
		before rpc.Give
		want   string
	}{
		"expected":           {rpc.Give{Why: "because", Expected: true}, "a has no room: no worker has 1Gi"},
		"the version before": {rpc.Give{Why: "a has no room: " + vague}, "a has no room: no worker has 1Gi"},
		"known":              {rpc.Give{Why: "because"}, "because"},
	} {
		x.before.From, x.before.To, x.before.N = "a", "b", 3
		got := Spill([]rpc.Give{x.before}, []Site{a, b}, 0, 0).Gives
		if len(got) != 1 || got[0].Why != x.want || got[0].Expected {
			t.Errorf("%s: %+v, want %q", name, got, x.want)
		}
	}
}
