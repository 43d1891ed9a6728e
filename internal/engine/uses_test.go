package engine

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/engine/uses"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

func unasked(service string) wire.Route {
	r := someRoute(service, 0)
	r.Unasked = true
	return r
}

// of is a route of another application.
func of(app string, r wire.Route) wire.Route {
	r.App = app
	return r
}

// says is what the engine tells its agent that it uses.
func (r *rig) says() wire.Uses {
	r.t.Helper()
	s, err := r.e.State(context.Background(), 0, 0)
	if err != nil || s.Info.Uses == nil {
		r.t.Fatalf("it does not say what it uses: %v", err)
	}
	return *s.Info.Uses
}

func (r *rig) mustSay(when string, want wire.Uses) {
	r.t.Helper()
	if got := r.says(); !reflect.DeepEqual(got, want) {
		r.t.Fatalf("%s: uses %+v, want %+v", when, got, want)
	}
}

func (r *rig) put(n uint64, orders []wire.Order, routes ...wire.Route) {
	r.t.Helper()
	o := engineapi.EngineOrders{V: wire.Version, Have: wire.Rev{Inc: "era", N: n}, Orders: orders, Routes: routes}
	if code := ask(r.t, r.e, http.MethodPut, o); code != http.StatusNoContent {
		r.t.Fatal(code)
	}
	synctest.Wait()
}

// The first use of a service waits until it is told where its instances are, and says
// so if it is not. What is used is kept over restarts, and forgotten ten minutes after
// its last use.
func TestWhatIsUsedIsTold(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.mustSay("with nothing", wire.Uses{})
		r.put(1, []wire.Order{order(0, 1, 100)}, unasked("web"), of("far", unasked("api")), of("far", unasked("db")))
		own := []string{"shop"}
		r.mustSay("with an instance", wire.Uses{Apps: own})
		for _, key := range []string{"shop.none", "x"} {
			if err := r.e.uses.Await(t.Context(), key); err != nil {
				t.Errorf("%s, which is not there: %v", key, err)
			}
		}
		r.mustSay("after what is not there", wire.Uses{Apps: own})

		done := make(chan error, 2)
		for range 2 {
			go func() { done <- r.e.uses.Await(t.Context(), "far.api") }()
		}
		synctest.Wait()
		r.mustSay("at the first use", wire.Uses{Apps: own, Services: []string{"far.api"}})
		if len(done) > 0 {
			t.Fatal("it does not wait")
		}
		told := of("far", someRoute("api", 2))
		if code := ask(t, r.e, http.MethodPatch,
			engineapi.EngineChanges{V: wire.Version, From: wire.Rev{Inc: "era", N: 1}, To: wire.Rev{Inc: "era", N: 2},
				Routes: []wire.Route{told}}); code != http.StatusNoContent {
			t.Fatal(code)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		begin := time.Now()
		if err := r.e.uses.Await(t.Context(), "far.db"); err == nil ||
			!strings.Contains(err.Error(), "does not say where") || time.Since(begin) != uses.ToldWithin {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		if _, err := r.e.Route(t.Context(), "far.db"); err == nil ||
			!strings.Contains(err.Error(), "does not know the instances") {
			t.Errorf("the route is shown: %v", err)
		}

		// A successor goes on with the endpoints that are here.
		r.stop()
		r.start()
		r.mustSay("after a restart", wire.Uses{Apps: own, Services: []string{"far.api"}})
		if err := r.e.uses.Await(t.Context(), "far.api"); err != nil {
			t.Errorf("what was known before a restart: %v", err)
		}
		// What is in use stays, however long.
		for range 5 {
			r.router.mu.Lock()
			r.router.lastUse = map[string]time.Time{"far.api": time.Now()}
			r.router.mu.Unlock()
			after(9 * time.Minute)
		}
		r.mustSay("while it is used", wire.Uses{Apps: own, Services: []string{"far.api"}})
		after(11 * time.Minute)
		r.mustSay("ten minutes after its last use", wire.Uses{Apps: own})
		r.put(3, nil, of("far", unasked("api")))
		r.mustSay("without instances", wire.Uses{})
	})
}

// Who uses more than can be said is told all, and so is who looks at all.
func TestAllIsUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var routes []wire.Route
		for n := range wire.MaxUses + 1 {
			routes = append(routes, unasked(fmt.Sprintf("s%d", n)))
		}
		r.put(1, nil, routes...)
		for i := range routes {
			r.e.uses.Use(routes[i].Key())
		}
		r.mustSay("with too many", wire.Uses{All: true})
		after(11 * time.Minute)
		r.mustSay("later", wire.Uses{})
		if _, err := r.e.Net(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.mustSay("when all workers are looked at", wire.Uses{All: true})
		after(11 * time.Minute)
		r.mustSay("after that", wire.Uses{})
		if s, err := r.e.State(t.Context(), 0, 0); err != nil || slices.Contains(s.Info.Problems, "") {
			t.Errorf("%v, %v", s.Info.Problems, err)
		}
	})
}
