package call

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// routed is the service app.web of a router that was not started.
func routed(t *testing.T, rules wire.RequestRules, endpoints ...wire.Endpoint) (*router.Services, *router.Service) {
	t.Helper()
	r := router.New(router.Options{Worker: "a", Cluster: "edge", Log: slog.New(slog.DiscardHandler)})
	ports := []api.Port{{Name: "http", Protocol: "http"}}
	rules.Needed = true
	r.Set([]wire.Route{{V: 1, App: "app", Service: "web", Ports: ports, Requests: rules, Endpoints: endpoints}},
		func([]router.PublishedPort) {})
	return r, r.Find("app.web")
}

func elsewhere(id string) wire.Endpoint {
	return wire.Endpoint{Instance: "app.web." + id, Cluster: "edge", Worker: "w" + id, Address: "127.0.0.1:1"}
}

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *router.Services
		var s *router.Service
		begin := func(s *router.Service) *Call {
			c := &Call{}
			must(t, c.Begin(t.Context(), r, s, "http", time.Time{}))
			return c
		}
		admitted := func(s *router.Service, after time.Duration) (bool, time.Duration) {
			c := begin(s)
			time.Sleep(after)
			e, _ := c.Next()
			c.Release()
			return e != nil, c.hopeless
		}
		want := func(what string, s *router.Service, after time.Duration, ok bool, retry time.Duration) {
			t.Helper()
			if got, again := admitted(s, after); got != ok || again != retry {
				t.Errorf("%s: %v, %v", what, got, again)
			}
		}
		rules := wire.RequestRules{Concurrency: 1, SLO: 1e9}
		r, s = routed(t, rules, elsewhere("0"), elsewhere("1"))
		want("nothing known", s, 0, true, 0)
		busy(s, 0, 50)
		want("one of which nothing is known", s, 0, true, 0)
		busy(s, 1, 5)
		want("one is not too busy", s, 0, true, 0)
		want("it is for who came before its instances were told", s, 600*time.Millisecond, false, time.Second)
		want("nothing is left", s, 2*time.Second, false, time.Second)
		busy(s, 1, 50)
		want("all are", s, 0, false, 5*time.Second)
		busy(s, 1, 0)
		want("one has nothing to do", s, 2*time.Second, true, 0)
		r.Eject(instanceAt(s, 1), "")
		want("it is ejected", s, 0, false, 5*time.Second)

		r, s = routed(t, wire.RequestRules{Concurrency: 1}, elsewhere("0"))
		busy(s, 0, 50)
		want("no objective", s, 0, true, 0)

		sleeps := elsewhere("1")
		sleeps.Asleep, sleeps.StartUp = true, api.Duration(500*time.Millisecond)
		r, s = routed(t, rules, elsewhere("0"), sleeps)
		busy(s, 0, 50)
		want("one that starts in time", s, 0, true, 0)
		busy(s, 1, 5)
		want("one that starts, with too much to do", s, 0, false, time.Second)

		// Who was sent somewhere is not sent away any more.
		r, s = routed(t, rules, elsewhere("0"), elsewhere("1"))
		c := begin(s)
		if e, _ := c.Next(); e == nil {
			t.Fatal("not admitted")
		}
		busy(s, 0, 50)
		busy(s, 1, 50)
		if e, _ := c.Next(); e == nil {
			t.Error("turned away after it was let in")
		}
	})
}
