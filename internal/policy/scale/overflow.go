package scale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Hold is the largest of a number that varies, over a while: it rises at once, and
// falls only when less was enough for that long, to the most of that time. The zero
// value holds 0.
type Hold struct {
	N    int
	at   time.Time // since when less is enough
	most int       // of the time since at
	low  bool
}

// See takes the number of now, and reports whether N has changed.
func (h *Hold) See(n int, now time.Time, grace time.Duration) bool {
	n = max(n, 0)
	if n >= h.N {
		changed := n > h.N
		*h = Hold{N: n}
		return changed
	}
	if !h.low {
		h.low, h.at, h.most = true, now, n
	}
	h.most = max(h.most, n)
	if now.Sub(h.at) < grace {
		return false
	}
	*h = Hold{N: h.most}
	return true
}

// Less takes n off what is held: they are not asked for any more for another reason.
func (h *Hold) Less(n int) {
	n = max(n, 0)
	h.N, h.most = max(0, h.N-n), max(0, h.most-n)
}

// Waits reports whether only time has to pass for N to fall.
func (h *Hold) Waits() bool { return h.low }

// Site is a cluster as its root sees it, for one service.
type Site struct {
	Name string
	// Heard: what it says of its demand is known. Of one that is not heard everything
	// stays as it was decided; one that is Gone counts as having nothing.
	Heard, Gone bool
	// Short is how many more its requests ask for than have a place there, as a Hold
	// has it, and Full why there is no room for them, "" where it only has no right to
	// run more. Unmet are those that run for others and have no place.
	Short, Unmet int
	Full         string
	// Max and Extra are the rights and the number for others that it counted with.
	Max, Extra int
	// Rights it has to run instances, Used those that it uses or was promised.
	Rights, Used int
	// Room is how many more it is expected to have room for; Barred why it may run none
	// for others, also of those that it has: "" where it may. Resting: it had no room
	// lately for what it was asked, and is not asked for more.
	Room    int
	Tight   string // why Room is 0: it "is full: …"
	Barred  string
	Resting bool
	// Km to other clusters, where that is known.
	Km map[string]float64
}

// Overflow is what is given to other clusters than those where the requests enter,
// and the rights that are moved for that.
type Overflow struct {
	Gives []wire.Give
	// Assign are rights that nobody has, for those that are to have them; Take are
	// rights that are not used, from those that are to give them up.
	Assign, Take map[string]int
	// Refused had no room for what it was asked for, with the reason.
	Refused map[string]string
	// Unserved says why some of a cluster's demand runs nowhere.
	Unserved map[string]string
}

// Extra is how many instances a cluster is to run for others.
func Extra(gives []wire.Give, name string) (n int) {
	for _, g := range gives {
		if g.To == name {
			n += g.N
		}
	}
	return n
}

// Spill decides where the instances run that demand asks for in clusters that have
// no room for them. gives are those of the decision before, free the rights that no
// cluster has, coming those that clusters are giving up. The same arguments have the
// same result; the order of sites does not matter.
//
//  1. What runs for others goes on as long as it is wanted: it is moved only if its
//     cluster may not run it any more, has no room for it, or is gone.
//  2. A cluster that only lacks rights is given rights, as far as it has room.
//  3. What has no room is given to the nearest cluster that has some, where no
//     distance is known to the one with most room.
//  4. Rights are assigned only of those that are free, and taken only if they are not
//     used: nobody's sum rises above what there are.
func Spill(gives []wire.Give, sites []Site, free, coming int) Overflow {
	s := newSpill(gives, sites, free, coming)
	s.settle()
	for i := range s.sites {
		s.shrink(&s.sites[i])
	}
	s.lacks()
	for i := range s.sites {
		s.grow(&s.sites[i])
	}
	s.move()
	s.out.Gives = slices.DeleteFunc(s.out.Gives, func(g wire.Give) bool { return g.N <= 0 })
	return s.out
}

// spill is a decision that is being made.
type spill struct {
	sites []Site
	at    map[string]int
	free  int // rights that are neither assigned nor spoken for
	want  int // coming rights that are not spoken for
	lack  []int
	spare []int // rights of each that it does not need
	room  []int
	home  []int // of Short, those that are to run there
	out   Overflow
}

func newSpill(gives []wire.Give, sites []Site, free, coming int) *spill {
	s := &spill{sites: slices.Clone(sites), at: map[string]int{}, free: max(free, 0), want: max(coming, 0)}
	slices.SortFunc(s.sites, func(a, b Site) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.sites {
		x := &s.sites[i]
		x.Short, x.Unmet, x.Max, x.Extra = max(x.Short, 0), max(x.Unmet, 0), max(x.Max, 0), max(x.Extra, 0)
		x.Rights, x.Room = max(x.Rights, 0), max(x.Room, 0)
		x.Used = min(max(x.Used, 0), x.Rights)
		s.at[x.Name] = i
		s.room = append(s.room, x.Room)
	}
	s.lack, s.spare, s.home = make([]int, len(s.sites)), make([]int, len(s.sites)), make([]int, len(s.sites))
	s.out = Overflow{Gives: slices.Clone(gives), Assign: map[string]int{}, Take: map[string]int{},
		Refused: map[string]string{}, Unserved: map[string]string{}}
	slices.SortFunc(s.out.Gives,
		func(a, b wire.Give) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return s
}

// settle ends what cannot go on.
func (s *spill) settle() {
	for i := range s.out.Gives {
		g := &s.out.Gives[i]
		from, ok := s.at[g.From]
		to, okTo := s.at[g.To]
		if !ok || !okTo || from == to || s.sites[to].Gone || s.sites[to].Barred != "" {
			g.N = 0
		}
	}
	for i := range s.sites {
		x := &s.sites[i]
		if !x.Heard || x.Unmet == 0 || x.Full == "" {
			continue
		}
		// It tried: what it has no room for is not asked of it any more.
		s.out.Refused[x.Name] = x.Full
		s.cut(func(g *wire.Give) bool { return g.To == x.Name }, max(0, x.Extra-x.Unmet))
	}
}

// cut lowers the gives that match to a sum of most, the last ones first.
func (s *spill) cut(match func(*wire.Give) bool, most int) {
	for i := range s.out.Gives {
		if g := &s.out.Gives[i]; match(g) {
			g.N = min(g.N, most)
			most -= g.N
		}
	}
}

// elsewhere is how many run for a cluster in others.
func (s *spill) elsewhere(name string) (n int) {
	for _, g := range s.out.Gives {
		if g.From == name {
			n += g.N
		}
	}
	return n
}

// shrink ends what a cluster's demand does not ask for any more, the farthest first.
func (s *spill) shrink(x *Site) {
	if !x.Heard {
		return
	}
	for i := range s.out.Gives {
		if g := &s.out.Gives[i]; g.From == x.Name && strings.HasSuffix(g.Why, vague) {
			g.Why = x.why()
		}
	}
	if x.Full == "" {
		// Only rights are missing: as many as there may be room for it is to have.
		have := x.Rights - x.Max // since it counted
		s.home[s.at[x.Name]] = min(x.Short, max(x.Room, have))
	}
	over := s.elsewhere(x.Name) - (x.Short - s.home[s.at[x.Name]])
	for over > 0 {
		far := -1
		for i, g := range s.out.Gives {
			if g.From == x.Name && g.N > 0 && (far < 0 || s.nearer(x, s.out.Gives[far].To, g.To)) {
				far = i
			}
		}
		g := &s.out.Gives[far]
		n := min(g.N, over)
		g.N -= n
		over -= n
	}
}

// nearer: a is to be preferred to b for demand of x.
func (s *spill) nearer(x *Site, a, b string) bool {
	km := func(name string) float64 {
		if d, ok := x.Km[name]; ok && d >= 0 {
			return d
		}
		return math.Inf(1)
	}
	da, db := km(a), km(b)
	if da != db {
		return da < db
	}
	ra, rb := s.sites[s.at[a]].Room, s.sites[s.at[b]].Room
	return cmp.Or(cmp.Compare(rb, ra), cmp.Compare(a, b)) < 0
}

// lacks works out which rights are missing where, and which nobody needs.
func (s *spill) lacks() {
	for i := range s.sites {
		x := &s.sites[i]
		// What it was given for others and has not counted yet will use rights.
		left := x.Rights - x.Used - max(0, Extra(s.out.Gives, x.Name)-max(0, x.Extra-x.Unmet))
		said := 0
		if x.Heard && !x.Gone {
			// What it said that it lacks, without what it was given since.
			said = s.home[i]
			if x.Full == "" {
				said += x.Unmet
			}
			s.lack[i] = max(0, -left, said-max(0, x.Rights-x.Max))
			if x.Barred != "" {
				s.lack[i] = 0
			}
		}
		if s.lack[i] == 0 && !x.Gone {
			s.spare[i] = max(0, left-said)
		}
	}
}

// rights that can still be had for a cluster.
func (s *spill) rights(to int) int {
	n := s.free + s.want + s.spare[to]
	for i := range s.sites {
		if i != to {
			n += s.spare[i]
		}
		n -= s.lack[i]
	}
	return max(0, n)
}

// grow gives what a cluster has no room for to others.
func (s *spill) grow(x *Site) {
	if !x.Heard {
		return
	}
	need := x.Short - s.home[s.at[x.Name]] - s.elsewhere(x.Name)
	if need <= 0 {
		return
	}
	var to []string
	barred, full, bars := 0, 0, ""
	for i := range s.sites {
		c := &s.sites[i]
		switch {
		case c.Name == x.Name || c.Gone:
		case c.Barred != "":
			barred++
			bars = cmp.Or(bars, c.Name+" "+c.Barred)
		case !c.Heard || c.Resting || c.Full != "" || s.out.Refused[c.Name] != "" || s.room[i] == 0:
			full++
		default:
			to = append(to, c.Name)
		}
	}
	slices.SortFunc(to, func(a, b string) int {
		if s.nearer(x, a, b) {
			return -1
		}
		return 1
	})
	for _, name := range to {
		i := s.at[name]
		n := min(need, s.room[i], s.rights(i))
		if n <= 0 {
			continue
		}
		s.give(x, name, n)
		s.room[i] -= n
		use := min(n, s.spare[i])
		s.spare[i] -= use
		s.lack[i] += n - use
		need -= n
	}
	if need <= 0 {
		return
	}
	switch {
	case len(to) > 0:
		s.out.Unserved[x.Name] = fmt.Sprintf("for %d: as many run as the service may have", need)
	case full+barred == 0:
		s.out.Unserved[x.Name] = fmt.Sprintf("for %d: there is no other cluster", need)
	case full == 0:
		s.out.Unserved[x.Name] = fmt.Sprintf("for %d: no other cluster may run it: %s", need, bars)
	default:
		s.out.Unserved[x.Name] = fmt.Sprintf("for %d: no other cluster has room either", need)
	}
}

// vague is what is said until a cluster has tried and says why it has no room.
const vague = "as many run there as it is expected to have room for"

// why not where the requests enter.
func (x *Site) why() string {
	if x.Full == "" && x.Barred != "" {
		return x.Name + " may not run it: it " + x.Barred
	}
	if x.Full == "" && x.Tight != "" {
		return x.Name + " " + x.Tight
	}
	return x.Name + " has no room: " + cmp.Or(x.Full, vague)
}

func (s *spill) give(x *Site, to string, n int) {
	why := x.why()
	for i := range s.out.Gives {
		if g := &s.out.Gives[i]; g.From == x.Name && g.To == to {
			g.N, g.Why = g.N+n, why
			return
		}
	}
	s.out.Gives = append(s.out.Gives, wire.Give{From: x.Name, To: to, N: n, Why: why})
	slices.SortFunc(s.out.Gives,
		func(a, b wire.Give) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
}

// move says which rights go where: those that are free at once, and for the rest some
// are taken that nobody uses, from who has most of them.
func (s *spill) move() {
	for i := range s.sites {
		if n := min(s.lack[i], s.free); n > 0 {
			s.out.Assign[s.sites[i].Name] = n
			s.lack[i] -= n
			s.free -= n
		}
	}
	for i := range s.sites {
		n := min(s.lack[i], s.want) // they are on their way already
		s.lack[i] -= n
		s.want -= n
		for s.lack[i] > 0 {
			from := -1
			for j := range s.sites {
				if s.sites[j].Heard && s.spare[j] > 0 && (from < 0 || s.spare[j] > s.spare[from]) {
					from = j
				}
			}
			if from < 0 {
				break
			}
			n := min(s.lack[i], s.spare[from])
			s.out.Take[s.sites[from].Name] += n
			s.spare[from] -= n
			s.lack[i] -= n
		}
	}
}
