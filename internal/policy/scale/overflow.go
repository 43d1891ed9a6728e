package scale

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Hold smooths a number that varies: it rises at once, and falls only after the number was lower
// throughout the grace period, to the maximum of that period. The zero value holds 0.
type Hold struct {
	N    int
	at   time.Time // since when less is enough
	most int       // of the time since at
	low  bool
}

// See takes the current number, and reports whether N has changed.
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

// Less subtracts n that are no longer needed for another reason.
func (h *Hold) Less(n int) {
	n = max(n, 0)
	h.N, h.most = max(0, h.N-n), max(0, h.most-n)
}

// Waits reports whether only time has to pass for N to fall.
func (h *Hold) Waits() bool { return h.low }

// Site is a cluster as its root sees it, for one service.
type Site struct {
	Name string
	// Heard: its demand is known; otherwise all previous decisions about it stay. Gone: it counts
	// as having nothing.
	Heard, Gone bool
	// Short is how many more instances its requests need than have a place there, smoothed by a
	// Hold. Full says why there is no room for them, "" if it only lacks rights. Unmet counts the
	// instances for others that have no place.
	Short, Unmet int
	Full         string
	// Max and Extra are the rights and the instances for others that its report is based on.
	Max, Extra int
	// Rights to run instances, and Used: those that it uses or was promised.
	Rights, Used int
	// Room is how many more it is expected to have room for; Barred why it may run none for others,
	// existing ones included: "" if it may. Resting: it recently had no room for what it was asked,
	// and is not asked for more.
	Room    int
	Tight   string // why Room is 0, such as "is full: …"
	Barred  string
	Resting bool
	// Km is the distance to other clusters, if known.
	Km map[string]float64
}

// Overflow is what clusters run for others, and the rights moved for that.
type Overflow struct {
	Gives []rpc.Give
	// Assign gives free rights to clusters, Take takes unused ones from them.
	Assign, Take map[string]int
	// Refused are the clusters without room for what they were asked, with the reason.
	Refused map[string]string
	// Unserved says why some of a cluster's demand runs nowhere.
	Unserved map[string]string
}

// Extra is how many instances a cluster is to run for others.
func Extra(gives []rpc.Give, name string) (n int) {
	for _, g := range gives {
		if g.To == name {
			n += g.N
		}
	}
	return n
}

// Spill decides where instances run for which their own cluster has no room. gives is the decision
// before, free the rights that no cluster has, coming those that clusters are giving up. The result
// depends only on the arguments, not on the order of sites.
//
//  1. Instances for others stay as long as they are wanted: they move only if their cluster may not
//     run them any more, has no room for them, or is gone.
//  2. A cluster that only lacks rights gets rights, as far as it has room.
//  3. Demand without room goes to the nearest cluster that has some, or to the one with most room
//     if no distance is known.
//  4. Only free rights are assigned, and only unused ones are taken: their sum never rises above
//     the total.
func Spill(gives []rpc.Give, sites []Site, free, coming int) Overflow {
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
	s.out.Gives = slices.DeleteFunc(s.out.Gives, func(g rpc.Give) bool { return g.N <= 0 })
	return s.out
}

// spill is a decision in progress.
type spill struct {
	sites []Site
	at    map[string]int
	free  int // rights that are neither assigned nor reserved
	want  int // coming rights that are not reserved
	lack  []int
	spare []int // rights that each does not need
	room  []int
	home  []int // the part of Short that is to run there
	out   Overflow
}

func newSpill(gives []rpc.Give, sites []Site, free, coming int) *spill {
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
		func(a, b rpc.Give) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return s
}

// settle ends the gives that cannot continue.
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
		// It tried, and is no longer asked for what it has no room for.
		s.out.Refused[x.Name] = x.Full
		s.cut(func(g *rpc.Give) bool { return g.To == x.Name }, max(0, x.Extra-x.Unmet))
	}
}

// cut lowers the gives that match to a sum of most, the last ones first.
func (s *spill) cut(match func(*rpc.Give) bool, most int) {
	for i := range s.out.Gives {
		if g := &s.out.Gives[i]; match(g) {
			g.N = min(g.N, most)
			most -= g.N
		}
	}
}

// elsewhere is how many instances run for a cluster in others.
func (s *spill) elsewhere(name string) (n int) {
	for _, g := range s.out.Gives {
		if g.From == name {
			n += g.N
		}
	}
	return n
}

// shrink ends what a cluster's demand no longer needs, the farthest first.
func (s *spill) shrink(x *Site) {
	if !x.Heard {
		return
	}
	for i := range s.out.Gives {
		if g := &s.out.Gives[i]; g.From == x.Name && (g.Expected || g.Why == x.roomless(vague)) {
			g.Why, g.Expected = x.why()
		}
	}
	if x.Full == "" {
		// Only rights are missing: it gets as many as it may have room for.
		have := x.Rights - x.Max // since its report
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

// nearer says whether a is preferred to b for demand of x.
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

// lacks computes which rights each cluster lacks, and which it does not need.
func (s *spill) lacks() {
	for i := range s.sites {
		x := &s.sites[i]
		// Instances given to it that its report does not count yet will use rights.
		left := x.Rights - x.Used - max(0, Extra(s.out.Gives, x.Name)-max(0, x.Extra-x.Unmet))
		said := 0
		if x.Heard && !x.Gone {
			// What it reported as lacking, less what it was given since.
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

// rights is how many a cluster can still get.
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

// grow gives other clusters what a cluster has no room for.
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

// vague is the reason until a cluster has tried and says why it has no room. Records of the
// previous version have it without Expected.
const vague = "as many run there as it is expected to have room for"

// why demand does not run where its requests enter, and whether that is only expected.
func (x *Site) why() (why string, expected bool) {
	switch {
	case x.Full != "":
		return x.roomless(x.Full), false
	case x.Barred != "":
		return x.Name + " may not run it: it " + x.Barred, false
	case x.Tight != "":
		return x.Name + " " + x.Tight, false
	}
	return x.roomless(vague), true
}

func (x *Site) roomless(why string) string { return x.Name + " has no room: " + why }

func (s *spill) give(x *Site, to string, n int) {
	why, expected := x.why()
	for i := range s.out.Gives {
		if g := &s.out.Gives[i]; g.From == x.Name && g.To == to {
			g.N, g.Why, g.Expected = g.N+n, why, expected
			return
		}
	}
	s.out.Gives = append(s.out.Gives, rpc.Give{From: x.Name, To: to, N: n, Why: why, Expected: expected})
	slices.SortFunc(s.out.Gives,
		func(a, b rpc.Give) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
}

// move decides which rights go where: free ones at once; the rest are taken from the clusters with
// most unused ones.
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
