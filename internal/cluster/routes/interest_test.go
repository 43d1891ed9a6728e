package routes_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// listener is a worker that keeps the routes that it is given.
type listener struct {
	t      *testing.T
	c      *core.Core
	name   string
	old    bool // of a version that does not say what it uses
	uses   *wire.Uses
	have   wire.Rev
	routes map[string]wire.Route
	got    int // changes fetched in all
}

func newListener(t *testing.T, c *core.Core, name string) *listener {
	return &listener{t: t, c: c, name: name, uses: &wire.Uses{}, routes: map[string]wire.Route{}}
}

// follow reports, all of it as after a lost link, and fetches what it is to have.
// It says whether there was anything to fetch.
func (l *listener) follow(full bool) bool {
	l.t.Helper()
	r := wire.Report{V: wire.Version, Have: l.have, At: time.Now().Unix()}
	if !l.old {
		r.Uses = l.uses
	}
	if full {
		b, err := json.Marshal(wire.WorkerInfo{V: wire.Version, Name: l.name, Uses: !l.old})
		if err != nil {
			l.t.Fatal(err)
		}
		r.Status = b
	}
	reply := workers.OnReport(l.t.Context(), l.c, l.name, r)
	if reply.Refused != "" {
		l.t.Fatalf("%s is refused: %s", l.name, reply.Refused)
	}
	if want := !l.old && !l.uses.All; reply.Heeds != want {
		l.t.Fatalf("%s is heeded: %v", l.name, reply.Heeds)
	}
	if reply.Want == l.have {
		return false
	}
	since, at := l.have, wire.Rev{}
	for first := true; ; first = false {
		page, err := workers.DesiredOf(l.c, l.name).Fetch(l.t.Context(),
			wire.Fetch{V: wire.Version, Since: since, At: at})
		if err != nil || page.Moved {
			l.t.Fatalf("%+v, %v", page, err)
		}
		if first && page.Full {
			clear(l.routes)
		}
		for _, ch := range page.Changes {
			key, ok := strings.CutPrefix(ch.Key, "route.")
			if !ok {
				continue
			}
			l.got++
			if ch.Deleted {
				delete(l.routes, key)
				continue
			}
			var r wire.Route
			if err := json.Unmarshal(ch.Value, &r); err != nil {
				l.t.Fatal(err)
			}
			l.routes[key] = r
		}
		l.have, at = page.To, page.To
		if !page.More {
			workers.OnReport(l.t.Context(), l.c, l.name, wire.Report{V: wire.Version, Have: l.have})
			return true
		}
	}
}

// holds checks that it has all routes, with the endpoints of what it uses alone.
func (l *listener) holds() {
	l.t.Helper()
	if len(l.routes) != len(l.c.M.Routes) {
		l.t.Fatalf("%s has %d routes of %d", l.name, len(l.routes), len(l.c.M.Routes))
	}
	for key, want := range l.c.M.Routes {
		got, ok := l.routes[key]
		told := l.old || l.uses.All || slices.Contains(l.uses.Apps, want.App) || slices.Contains(l.uses.Services, key)
		if !ok || got.Unasked == told || told && len(got.Endpoints) != len(want.Endpoints) || !told &&
			got.Endpoints != nil || len(got.Ports) != len(want.Ports) {
			l.t.Fatalf("%s has of %s %+v, want %+v (told: %v)", l.name, key, got, want, told)
		}
	}
}

// publish makes the root say routes, by key, with so many endpoints; below 0 is none.
func publish(t *testing.T, c *core.Core, n uint64, routes map[string]int) {
	t.Helper()
	var changes []wire.Change
	for key, endpoints := range routes {
		app, service, _ := strings.Cut(key, ".")
		r := wire.Route{V: wire.Version, App: app, Service: service, Ports: []api.Port{{Name: "http"}},
			Policy: "round-robin"}
		for i := range endpoints {
			r.Endpoints = append(r.Endpoints,
				wire.Endpoint{Instance: fmt.Sprintf("%s.%d", key, i), Cluster: "far", Worker: "w",
					Address: "192.0.2.1:1"})
		}
		changes = append(changes, wire.Change{Key: "route." + key, Value: clustertest.JSON(t, r), Deleted: endpoints < 0})
	}
	if err := uplink.FromRoot(c).Take(t.Context(), false, changes, wire.Rev{Inc: "root", N: n}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Pass(t.Context(), c, time.Now(), true); err != nil {
		t.Fatal(err)
	}
}

// A worker has all names at once, and the endpoints of what it says it uses. What
// changes of the others is not its business.
func TestAWorkerIsToldOfWhatItUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, store := clustertest.NewCoreWithWorkers(t, "w1", "w10", "old")
		publish(t, c, 1, map[string]int{"shop.web": 3, "shop.db": 1, "other.api": 2, "other.api2": 2})
		w1, w10, old := newListener(t, c, "w1"), newListener(t, c, "w10"), newListener(t, c, "old")
		old.old = true
		all := []*listener{w1, w10, old}
		for _, l := range all {
			l.follow(true)
			l.holds()
		}
		w1.uses.Services = []string{"other.api"}
		w10.uses.Apps = []string{"shop"}
		for _, l := range all {
			if news := l.follow(false); news == l.old {
				t.Errorf("%s has news: %v", l.name, news)
			}
			l.holds()
		}
		// A change is the business of those who use the service, and of old workers.
		for n, key := range []string{"other.api", "shop.db", "other.api2"} {
			before := []int{w1.got, w10.got, old.got}
			publish(t, c, uint64(2+n), map[string]int{key: 5})
			for i, l := range all {
				want := l == old || l == w1 && key == "other.api" || l == w10 && key == "shop.db"
				if c.M.Workers[l.name].Current == want {
					t.Errorf("%s changed, and %s is nudged: %v", key, l.name, !want)
				}
				if news := l.follow(false); news != want || l.got-before[i] > 1 {
					t.Errorf("%s changed, and %s fetches: %v, %d routes", key, l.name, news, l.got-before[i])
				}
				l.holds()
			}
		}
		// Names are everybody's.
		publish(t, c, 9, map[string]int{"new.one": 1, "other.api2": -1})
		for _, l := range all {
			if !l.follow(false) {
				t.Errorf("%s does not hear of names", l.name)
			}
			l.holds()
		}
		// It says that it does not use it any more, and uses what there is not yet.
		w1.uses.Services = []string{"new.later"}
		w1.follow(false)
		w1.holds()
		publish(t, c, 10, map[string]int{"new.later": 2, "other.api": 1})
		for _, l := range all {
			l.follow(false)
			l.holds()
		}
		// A cluster that starts again knows it still, and nobody fetches anything.
		next, err := clustertest.Init(t.Context(),
			&core.Core{ClusterName: "edge", Logger: c.Logger, EventRing: c.EventRing, RecordStore: store.Reopen(),
				Local: c.Local, Up: c.Up}, true,
			time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range all {
			if l.c = next; l.follow(true) {
				t.Errorf("%s fetches after a restart", l.name)
			}
			l.holds()
		}
		// Another version on the worker, and back; and one that uses more than can be said.
		time.Sleep(time.Minute)
		w1.old = true
		w1.follow(true)
		w1.holds()
		time.Sleep(time.Minute)
		w1.old = false
		w1.follow(true)
		w1.holds()
		w1.uses = &wire.Uses{All: true}
		w1.follow(false)
		w1.holds()
		w1.uses = &wire.Uses{Apps: []string{"new"}}
		w1.follow(false)
		w1.holds()
		if _, err := workers.RemoveWorker(t.Context(), next, "w1", true, time.Now()); err != nil {
			t.Fatal(err)
		}
		if left, err := next.RecordStore.List(t.Context(), routes.KeyUses+"w1."); err != nil || len(left) > 0 {
			t.Errorf("of a worker that was removed there is %v, %v", left, err)
		}
	})
}

// Whatever happens in whatever order, and in whatever pages: who has followed has what
// is true.
func TestRoutesByInterestConverge(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			c, _ := clustertest.NewCoreWithWorkers(t, "w1", "w2", "old")
			all := []*listener{newListener(t, c, "w1"), newListener(t, c, "w2"), newListener(t, c, "old")}
			all[2].old = true
			key := func() string { return fmt.Sprintf("a%d.s%d", random.IntN(3), random.IntN(4)) }
			for step := range uint64(150) {
				time.Sleep(time.Second)
				switch random.IntN(3) {
				case 0:
					changes := map[string]int{}
					for range 1 + random.IntN(3) {
						changes[key()] = random.IntN(5) - 1
					}
					publish(t, c, step+1, changes)
				case 1:
					l := all[random.IntN(2)]
					l.uses = &wire.Uses{All: random.IntN(20) == 0}
					for range random.IntN(4) {
						l.uses.Services = append(l.uses.Services, key())
					}
					if random.IntN(2) == 0 {
						l.uses.Apps = []string{fmt.Sprintf("a%d", random.IntN(3))}
					}
				}
				for _, l := range all {
					if random.IntN(2) == 0 {
						l.follow(step == 0 || random.IntN(5) == 0)
						if l.have != (wire.Rev{}) {
							l.holds()
						}
					}
				}
			}
		})
	}
}

// What cannot be a name is not stored; who says it is told everything, and who says
// something else all the time is asked to say it later.
func TestWhatAWorkerSaysItUsesIsChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := clustertest.NewCoreWithWorkers(t, "w1")
		publish(t, c, 1, map[string]int{"shop.web": 3})
		for _, bad := range []wire.Uses{
			{Services: []string{"shop"}}, {Services: []string{"shop.we*b"}}, {Services: []string{"shop.web.0"}},
			{Apps: []string{""}}, {Apps: []string{"a.b"}},
			{Apps: []string{strings.Repeat("x", 64)}}, {Services: make([]string, wire.MaxUses+1)},
		} {
			time.Sleep(time.Minute)
			reply := workers.OnReport(t.Context(), c, "w1", wire.Report{V: wire.Version, Uses: &bad})
			if reply.Refused != "" || reply.Heeds {
				t.Errorf("%.100v: %+v", bad, reply)
			}
		}
		time.Sleep(time.Minute)
		before, asked := c.RecordStore.Rev(), 0
		for n := range 100 {
			reply := workers.OnReport(t.Context(), c, "w1",
				wire.Report{V: wire.Version, Uses: &wire.Uses{Services: []string{fmt.Sprintf("shop.s%d", n)}}})
			if reply.NeedStatus {
				asked++
			}
		}
		if writes := c.RecordStore.Rev() - before; writes > 50 || asked < 70 {
			t.Errorf("%d writes, asked to say it later %d times", writes, asked)
		}
	})
}
