package proxy

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/wire"
)

// routed is the service app.web of a router that was not started.
func routed(t *testing.T, rules wire.RequestRules, endpoints ...wire.Endpoint) (*services, *service) {
	t.Helper()
	r := newServices(servicesOptions{Worker: "a", Cluster: "edge", Log: slog.New(slog.DiscardHandler)})
	ports := []api.Port{{Name: "http", Protocol: "http"}}
	rules.Needed = true
	r.set([]wire.Route{{V: 1, App: "app", Service: "web", Ports: ports, Requests: rules, Endpoints: endpoints}}, func([]publishedPort) {})
	return r, r.find("app.web")
}

func elsewhere(id string) wire.Endpoint {
	return wire.Endpoint{Instance: "app.web." + id, Cluster: "edge", Worker: "w" + id, Address: "127.0.0.1:1"}
}

// instance is the endpoint of instance i.
func instanceAt(s *service, i int) *endpoint {
	id := fmt.Sprintf("app.web.%d", i)
	all := s.all()
	return all[slices.IndexFunc(all, func(e *endpoint) bool { return e.Instance == id })]
}

// busy has n requests at an endpoint, which does 10 a second by its report.
func busy(s *service, i, n int) {
	e := instanceAt(s, i)
	var r orca.Report
	loadReport(&r, scale.Report{Exec: 100 * time.Millisecond, Work: 100 * time.Millisecond})
	s.reported(e, &r)
	at := slices.IndexFunc(s.stats().Endpoints, func(st EndpointStats) bool { return st.Instance == e.Instance })
	for have := s.stats().Endpoints[at].InFlight; have < n; have++ {
		s.began(e)
	}
	for have := s.stats().Endpoints[at].InFlight; have > n; have-- {
		s.ended(e)
	}
}

func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *services
		var s *service
		begin := func(s *service) *call {
			c := &call{}
			must(t, c.begin(t.Context(), r, s, "http", time.Time{}))
			return c
		}
		admitted := func(s *service, after time.Duration) (bool, time.Duration) {
			c := begin(s)
			time.Sleep(after)
			e, _ := c.next()
			c.release()
			return e != nil, c.hopeless
		}
		want := func(what string, s *service, after time.Duration, ok bool, retry time.Duration) {
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
		r.eject(instanceAt(s, 1), "")
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
		if e, _ := c.next(); e == nil {
			t.Fatal("not admitted")
		}
		busy(s, 0, 50)
		busy(s, 1, 50)
		if e, _ := c.next(); e == nil {
			t.Error("turned away after it was let in")
		}
	})
}

// What admission refuses is counted, and asked for as any other request is.
func TestAdmissionAtTheGateway(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	leave := make(chan struct{})
	a.slow(t, a, "app.web.0", "slow", leave)
	rt := hostRoute(host, a.endpoint("app.web.0"))
	rt.Requests = wire.RequestRules{Needed: true, Concurrency: 1, SLO: 1, Elastic: true}
	a.SetRoutes([]wire.Route{rt})
	s := a.services.find("app.web")
	busy(s, 0, 0)
	first := make(chan string, 1)
	go func() {
		_, body := fetch(t, client(t), a.request(t, "GET", host, "/", nil))
		first <- body
	}()
	eventually(t, "one runs", func() bool { return a.InFlight("app.web.0") == 1 })
	for range 3 {
		res, body := fetch(t, client(t), a.request(t, "GET", host, "/", nil))
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "too-slow") {
			t.Fatalf("%d %v: %s", res.StatusCode, res.Header, body)
		}
	}
	close(leave)
	if got := <-first; got != "slow" {
		t.Errorf("the one that was let in: %q", got)
	}
	st := a.Stats().Services[0]
	if st.Hopeless != 3 || st.Failures != 3 || st.Full != 0 {
		t.Errorf("counted %d, %d failures, %d full", st.Hopeless, st.Failures, st.Full)
	}
	if d := a.Demand(); len(d) != 1 || d[0].Requests != 4 || d[0].Refused != 3 {
		t.Errorf("demand %+v", d)
	}
}
