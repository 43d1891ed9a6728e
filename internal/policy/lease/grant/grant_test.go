package grant

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/lease/block"
	"github.com/verge-edge/verge/internal/wire"
)

var start = time.Unix(1e9, 0)

func small(bits int) Network {
	return NewNetwork([5]byte{1, 2, 3, 4, 5}, netip.PrefixFrom(netip.MustParseAddr("10.128.0.0"), bits), lease.DefaultServices)
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
	rests   []lease.Rest
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
			needs[name] = lease.Need(s.has, s.rests, len(s.workers), w.now)
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
	for name, l := range lease.Assign(s.has, s.workers, s.rests, slices.Compact(names), now) {
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
					numbers, nets := lease.Parts(l)
					s.rests = append(s.rests, lease.Rests(n, 0, numbers, nets, w.now, w.certValid())...)
					delete(s.workers, n)
					break
				}
			},
			"cluster is removed": func(t *rapid.T) {
				name := pick(t)
				l := w.leases[name]
				w.net.Rests = append(w.net.Rests, lease.Rests(name, l.Index, l.Numbers, l.Subnets, w.now, w.certValid())...)
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
						if !lease.Takes(s.has, s.workers, l) {
							t.Fatalf("%s cannot go on with %+v", n, l)
						}
						s.workers[n] = l
					}
				}
				s.rests = append(s.rests, lease.Fence(s.has, s.workers, s.rests, w.now, w.certValid())...)
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
	n := NewNetwork([5]byte{9}, lease.DefaultPool, lease.DefaultServices)
	leases := map[string]*wire.ClusterLease{}
	s := &site{workers: map[string]*wire.Lease{}}
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprint("w", i))
	}
	for range 20 {
		need := lease.Need(s.has, nil, len(names), start)
		for name, l := range n.Grant(leases, map[string]*wire.NetworkNeed{"big": need, "small": nil}, false, start) {
			leases[name] = l
		}
		s.has = leases["big"]
		for name, l := range lease.Assign(s.has, s.workers, nil, names, start) {
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
	if got := block.Count(leases["big"].Subnets); got < 10_000 || got > share(lease.DefaultPool) {
		t.Errorf("it has %d /24s", got)
	}
	if got := block.Count(leases["small"].Subnets); got != firstSubnets {
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
			needs[name] = lease.Need(s.has, nil, 3, start)
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
		for w, l := range lease.Assign(s.has, nil, nil, []string{"1", "2", "3"}, start) {
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
	if block.Has(got.Numbers, leases["a"].Numbers[0].From) || block.Has(got.Subnets, leases["a"].Subnets[0].From) || got.Index != leases["b"].Index {
		t.Errorf("b took what is a's: %+v", got)
	}
	if block.Count(got.Subnets) > 256 {
		t.Errorf("b has %d /24s of a pool of 256", block.Count(got.Subnets))
	}
	other := *leases["b"]
	other.Prefix = netip.MustParsePrefix("fd00::/48")
	if got := n.Adopt("b", &other, leases); got != leases["b"] {
		t.Errorf("what is of another network was taken over: %+v", got)
	}
}
