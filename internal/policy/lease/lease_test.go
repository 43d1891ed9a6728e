package lease

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/wire"
)

var start = time.Unix(1e9, 0)

func small(bits int) Network {
	return NewNetwork([5]byte{1, 2, 3, 4, 5}, netip.PrefixFrom(netip.MustParseAddr("10.128.0.0"), bits), DefaultServices)
}

func TestBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wire.Block {
			return wire.Block{From: rapid.Uint32Range(0, 40).Draw(t, "from"), N: rapid.Uint32Range(0, 9).Draw(t, "n")}
		}), 0, 6)
		a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
		union, rest := Union(a, b), Without(a, b)
		for n := range uint32(60) {
			if Has(union, n) != (Has(a, n) || Has(b, n)) {
				t.Fatalf("%d in the union %v", n, union)
			}
			if Has(rest, n) != (Has(a, n) && !Has(b, n)) {
				t.Fatalf("%d in the rest %v", n, rest)
			}
		}
		if Count(first(rest, 3)) != min(3, Count(rest)) {
			t.Fatalf("the first 3 of %v", rest)
		}
	})
	top := []wire.Block{{From: 1<<32 - 2, N: 2}}
	if !Has(top, 1<<32-1) || Count(Without(top, []wire.Block{{From: 1<<32 - 1, N: 1}})) != 1 {
		t.Error("the last numbers are lost")
	}
}

// world is a root and its clusters, with a root or clusters restored at any time.
type world struct {
	net    Network
	leases map[string]*wire.ClusterLease
	sites  map[string]*site
	now    time.Time
	// backup of the root
	old  Network
	oldL map[string]*wire.ClusterLease
}

type site struct {
	has     *wire.ClusterLease // as it was told last
	workers map[string]*wire.Lease
	rests   []Rest
	removed bool
}

// owners checks that nothing is had by two, and notes who had what.
func (w *world) owners(t *rapid.T) {
	seen := map[uint32]string{}
	nets := map[netip.Prefix]string{}
	for c, s := range w.sites {
		for name, l := range s.workers {
			who := c + "/" + name
			if o := seen[l.Number]; o != "" {
				t.Fatalf("%s and %s have number %d", o, who, l.Number)
			}
			seen[l.Number] = who
			if !l.IPv4.IsValid() {
				continue
			}
			if o := nets[l.IPv4]; o != "" {
				t.Fatalf("%s and %s have %s", o, who, l.IPv4)
			}
			nets[l.IPv4] = who
			if !w.net.Pool.Contains(l.IPv4.Addr()) {
				t.Fatalf("%s has %s, which is not in the pool", who, l.IPv4)
			}
		}
	}
}

func (w *world) grant(recovering bool) {
	needs := map[string]*wire.NetworkNeed{}
	for name, s := range w.sites {
		if !s.removed {
			needs[name] = Need(s.has, s.rests, len(s.workers), w.now)
		}
	}
	for name, l := range w.net.Grant(w.leases, needs, recovering, w.now) {
		w.leases[name] = l
	}
}

func (w *world) fetch(name string) {
	if s := w.sites[name]; !s.removed {
		s.has = w.leases[name]
	}
}

func (s *site) assign(now time.Time, names ...string) {
	for name := range s.workers {
		names = append(names, name)
	}
	slices.Sort(names)
	for name, l := range Assign(s.has, s.workers, s.rests, slices.Compact(names), now) {
		s.workers[name] = l
	}
}

func (w *world) certValid() time.Time { return w.now.Add(300 * 24 * time.Hour) }

func TestNothingHasTwoOwners(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{net: small(rapid.IntRange(16, 21).Draw(t, "pool")), leases: map[string]*wire.ClusterLease{}, sites: map[string]*site{}, now: start}
		w.old, w.oldL = w.net, map[string]*wire.ClusterLease{}
		pick := func(t *rapid.T) string {
			var names []string
			for n, s := range w.sites {
				if !s.removed {
					names = append(names, n)
				}
			}
			if len(names) == 0 {
				t.Skip("no cluster")
			}
			slices.Sort(names)
			return rapid.SampledFrom(names).Draw(t, "cluster")
		}
		workers := 0
		t.Repeat(map[string]func(*rapid.T){
			"cluster joins": func(*rapid.T) {
				w.sites[fmt.Sprint("c", len(w.sites))] = &site{workers: map[string]*wire.Lease{}}
				w.grant(false)
			},
			"fetch": func(t *rapid.T) { w.fetch(pick(t)) },
			"workers join": func(t *rapid.T) {
				s := w.sites[pick(t)]
				before := map[string]wire.Lease{}
				for n, l := range s.workers {
					before[n] = *l
				}
				for range rapid.IntRange(1, 12).Draw(t, "workers") {
					workers++
					s.assign(w.now, fmt.Sprint("w", workers))
				}
				w.grant(false)
				for n, l := range before {
					if got := s.workers[n]; got.Number != l.Number || l.IPv4.IsValid() && got.IPv4 != l.IPv4 {
						t.Fatalf("%s had %+v and has %+v", n, l, got)
					}
				}
			},
			"worker is removed": func(t *rapid.T) {
				s := w.sites[pick(t)]
				for n, l := range s.workers {
					numbers, nets := Parts(l)
					s.rests = append(s.rests, Rests(n, 0, numbers, nets, w.now, w.certValid())...)
					delete(s.workers, n)
					break
				}
			},
			"cluster is removed": func(t *rapid.T) {
				name := pick(t)
				l := w.leases[name]
				w.net.Rests = append(w.net.Rests, Rests(name, l.Index, l.Numbers, l.Subnets, w.now, w.certValid())...)
				delete(w.leases, name)
				w.sites[name].removed = true // its workers go on with what they have
			},
			"a year goes by": func(*rapid.T) {
				w.now = w.now.Add(400 * 24 * time.Hour)
				for n, s := range w.sites {
					if s.removed { // nobody accepts its certificates any more
						delete(w.sites, n)
						w.sites[n+"-gone"] = &site{removed: true}
					}
				}
			},
			"backup": func(*rapid.T) {
				w.old, w.oldL = w.net, map[string]*wire.ClusterLease{}
				for n, l := range w.leases {
					w.oldL[n] = l
				}
			},
			"the root is restored": func(t *rapid.T) {
				leases := map[string]*wire.ClusterLease{}
				for n, l := range w.oldL {
					if s := w.sites[n]; s != nil { // else it is removed again by an administrator
						leases[n] = l
					}
				}
				rests := w.net.Rests // of removed clusters: their removal is repeated
				w.net, w.leases = w.old.Leap(w.oldL, w.now), leases
				w.net.Rests = rests
				for n, s := range w.sites {
					if s.removed {
						delete(w.leases, n)
						continue
					}
					w.leases[n] = w.net.Adopt(n, s.has, w.leases)
					if w.leases[n] == nil {
						delete(w.leases, n)
					}
				}
				w.now = w.now.Add(time.Second)
				w.grant(rapid.Bool().Draw(t, "recovering"))
			},
			"a cluster is restored": func(t *rapid.T) {
				s := w.sites[pick(t)]
				// It has forgotten all workers, and hears some of them.
				all := s.workers
				s.workers = map[string]*wire.Lease{}
				for n, l := range all {
					if rapid.Bool().Draw(t, "heard") {
						if !Takes(s.has, s.workers, l) {
							t.Fatalf("%s cannot go on with %+v", n, l)
						}
						s.workers[n] = l
					}
				}
				s.rests = append(s.rests, Fence(s.has, s.workers, s.rests, w.now, w.certValid())...)
				for n, l := range all {
					if s.workers[n] == nil { // it runs on, unknown to its cluster
						w.sites[fmt.Sprint("lost-", n, len(w.sites))] = &site{removed: true, workers: map[string]*wire.Lease{n: l}}
					}
				}
			},
			"": func(t *rapid.T) { w.owners(t) },
		})
	})
}

func TestAClusterOfTenThousand(t *testing.T) {
	n := NewNetwork([5]byte{9}, DefaultPool, DefaultServices)
	leases := map[string]*wire.ClusterLease{}
	s := &site{workers: map[string]*wire.Lease{}}
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprint("w", i))
	}
	for range 20 {
		need := Need(s.has, nil, len(names), start)
		for name, l := range n.Grant(leases, map[string]*wire.NetworkNeed{"big": need, "small": nil}, false, start) {
			leases[name] = l
		}
		s.has = leases["big"]
		for name, l := range Assign(s.has, s.workers, nil, names, start) {
			s.workers[name] = l
		}
	}
	with := 0
	for _, l := range s.workers {
		if l.IPv4.IsValid() && l.Number > 0 {
			with++
		}
	}
	if with != 10_000 {
		t.Errorf("%d workers have an address, want all 10,000", with)
	}
	if got := Count(leases["big"].Subnets); got < 10_000 || got > share(DefaultPool) {
		t.Errorf("it has %d /24s", got)
	}
	if got := Count(leases["small"].Subnets); got != firstSubnets {
		t.Errorf("a small one has %d", got)
	}
}

func TestWhatIsUsedUpIsSaidAndIPv6GoesOn(t *testing.T) {
	n := small(22) // four /24s
	leases := map[string]*wire.ClusterLease{}
	sites := map[string]*site{"a": {}, "b": {}, "c": {}}
	needs := map[string]*wire.NetworkNeed{}
	for range 3 {
		for name, s := range sites {
			needs[name] = Need(s.has, nil, 3, start)
		}
		for name, l := range n.Grant(leases, needs, false, start) {
			leases[name] = l
		}
		for name, s := range sites {
			s.has = leases[name]
		}
	}
	nets := 0
	for name, s := range sites {
		for w, l := range Assign(s.has, nil, nil, []string{"1", "2", "3"}, start) {
			if l.Number == 0 {
				t.Errorf("%s/%s has no number", name, w)
			}
			if l.IPv4.IsValid() {
				nets++
			}
		}
	}
	if nets != 4 {
		t.Errorf("%d workers have IPv4, want 4", nets)
	}
	if got := n.Short(leases, needs, false); len(got) != 1 || !strings.Contains(got[0], "5 workers without IPv4") {
		t.Errorf("said: %q", got)
	}
	if got := n.Short(map[string]*wire.ClusterLease{}, nil, false); got != nil {
		t.Errorf("said of nothing: %q", got)
	}
}

func TestWhatOthersHaveIsNotBelieved(t *testing.T) {
	n := small(16)
	leases := n.Grant(nil, map[string]*wire.NetworkNeed{"a": nil, "b": nil}, false, start)
	all := *leases["b"]
	all.Numbers, all.Subnets, all.Index = []wire.Block{{From: 0, N: 1<<32 - 1}}, []wire.Block{{From: 0, N: 1<<32 - 1}}, leases["a"].Index
	got := n.Adopt("b", &all, leases)
	if Has(got.Numbers, leases["a"].Numbers[0].From) || Has(got.Subnets, leases["a"].Subnets[0].From) || got.Index != leases["b"].Index {
		t.Errorf("b took what is a's: %+v", got)
	}
	if Count(got.Subnets) > 256 {
		t.Errorf("b has %d /24s of a pool of 256", Count(got.Subnets))
	}
	other := *leases["b"]
	other.Prefix = netip.MustParsePrefix("fd00::/48")
	if got := n.Adopt("b", &other, leases); got != leases["b"] {
		t.Errorf("what is of another network was taken over: %+v", got)
	}
}

func TestApplicationNumbers(t *testing.T) {
	used := map[uint32]bool{}
	n, next := App(1, func(n uint32) bool { return used[n] })
	if n != 1 || next != 2 {
		t.Errorf("the first is %d, then %d", n, next)
	}
	if n, next = App(wire.MaxRootApp, func(uint32) bool { return false }); n != wire.MaxRootApp || next != 1 {
		t.Errorf("the last is %d, then %d", n, next)
	}
	if n, _ = App(7, func(uint32) bool { return true }); n != 0 {
		t.Errorf("%d was given where all are used", n)
	}
	seen := map[uint32]bool{}
	for _, index := range []uint32{1, 2, wire.MaxClusterIndex} {
		at := uint32(0)
		for range wire.SiteApps {
			var n uint32
			n, at = SiteApp(index, at, func(n uint32) bool { return seen[n] })
			if n == 0 || seen[n] || n <= wire.MaxRootApp || n >= 1<<24 || SiteOf(n) != index || !SiteOwns(index, n) || SiteOwns(index+1, n) {
				t.Fatalf("cluster %d gives %d", index, n)
			}
			seen[n] = true
		}
		if n, _ := SiteApp(index, at, func(n uint32) bool { return seen[n] }); n != 0 {
			t.Errorf("cluster %d gives %d beyond all of its own", index, n)
		}
	}
	if n, _ := SiteApp(0, 0, func(uint32) bool { return false }); n != 0 || SiteOf(5) != 0 || SiteOwns(0, 1<<23) {
		t.Error("a cluster without an index gives numbers")
	}
}

func TestAddresses(t *testing.T) {
	pool := DefaultPool
	for _, n := range []uint32{0, 1, 255, 256, 32767} {
		if got, ok := SubnetNumber(pool, Subnet(pool, n)); !ok || got != n {
			t.Errorf("/24 %d is %s and back %d", n, Subnet(pool, n), got)
		}
	}
	if Subnet(pool, 32767).String() != "10.255.255.0/24" || SubnetsIn(pool) != 32768 {
		t.Errorf("the last of %d is %s", SubnetsIn(pool), Subnet(pool, 32767))
	}
	l := &wire.Lease{Prefix: netip.MustParsePrefix("fd01:203:405::/48"), Number: 0x10203, IPv4: netip.MustParsePrefix("10.128.1.0/24"), Pool: pool}
	mine := netip.MustParseAddr("fd01:203:405:1:203:5:0:1") // worker 00010203, application 000500, instance 000001
	if w, a, i, ok := Parse(l.Prefix, mine); !ok || w != 0x10203 || a != 0x500 || i != 1 {
		t.Errorf("%s is worker %x, application %x, instance %x", mine, w, a, i)
	}
	v4, foreign := netip.MustParseAddr("10.128.1.7"), netip.MustParseAddr("10.128.2.7")
	got := Mine(l, 0x500, []netip.Addr{foreign, netip.MustParseAddr("fd01:203:405:1:204:5:0:1"), netip.MustParseAddr("::ffff:10.128.1.7"), mine, v4, v4})
	if !slices.Equal(got, []netip.Addr{mine, v4}) {
		t.Errorf("of what it says these are its own: %v", got)
	}
	if got := Mine(l, 0x501, []netip.Addr{mine}); got != nil {
		t.Errorf("an address of another application: %v", got)
	}
	c := &wire.ClusterLease{Prefix: l.Prefix, Pool: pool, Index: 3, Numbers: []wire.Block{{From: 0x10200, N: 8}}, Subnets: []wire.Block{{From: 1, N: 1}}}
	if got := Ours(c, 0x500, []netip.Addr{mine, v4, foreign}); !slices.Equal(got, []netip.Addr{mine, v4}) {
		t.Errorf("of what a cluster says these are its own: %v", got)
	}
	if Mine(nil, 1, []netip.Addr{mine}) != nil || Ours(nil, 1, []netip.Addr{mine}) != nil {
		t.Error("addresses without a lease")
	}
}

func TestPoolsAreChecked(t *testing.T) {
	for _, tc := range [][3]string{
		{"10.128.0.0/9", "10.30.0.0/16", ""}, {"10.128.0.1/9", "10.30.0.0/16", "bits"}, {"10.0.0.0/9", "10.30.0.0/16", "overlap"},
		{"fd00::/48", "10.30.0.0/16", "IPv4"}, {"10.128.0.0/25", "10.30.0.0/16", "between"}, {"10.128.0.0/9", "127.0.0.0/8", "hosts"},
		{"10.128.0.0/9", "10.0.0.0/7", "between"},
	} {
		pool, _ := netip.ParsePrefix(tc[0])
		services, _ := netip.ParsePrefix(tc[1])
		err := CheckPools(pool, services)
		if (err == nil) != (tc[2] == "") || err != nil && !strings.Contains(err.Error(), tc[2]) {
			t.Errorf("%s and %s: %v", tc[0], tc[1], err)
		}
	}
	if err := CheckPools(netip.Prefix{}, DefaultServices); err == nil {
		t.Error("no pool was accepted")
	}
}
