package proxy

import (
	"net/http"
	"sync"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// silentRoute is app.web whose owner says nothing but its ports, as a cluster tells it.
func silentRoute(ports []api.Port, endpoints ...wire.Endpoint) wire.Route {
	s := api.Service{Ports: ports}
	rt := wire.Route{V: 1, App: "app", Service: "web", Endpoints: endpoints, Ports: ports,
		Requests: wire.RequestsOf(&s)}
	rt.SetPolicy(s.Policy)
	return rt
}

// A service that says nothing of requests takes as many as come, also beyond the places
// and the queue that others have.
func TestSilentServicesHaveNoBound(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	const each = 150
	var there sync.WaitGroup
	there.Add(2 * each)
	poll := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		there.Done()
		there.Wait() // all of them are there at once
	})
	a.addHTTP(t, "app.web.0", poll)
	b.addHTTP(t, "app.web.1", poll)
	rt := silentRoute([]api.Port{{Name: "http", Protocol: "http"}}, a.endpoint("app.web.0"), b.endpoint("app.web.1"))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	c := client(t)
	var all sync.WaitGroup
	for range 2 * each {
		all.Go(func() {
			if res, body := get(t, c, a.entryURL(t, "http", "/")); res.StatusCode != http.StatusOK {
				t.Errorf("%d: %s", res.StatusCode, body)
			}
		})
	}
	all.Wait()
	if rep, _ := a.Route("app.web"); rep.Policy.Name != api.PolicyFastest {
		t.Errorf("routed by %s", rep.Policy)
	}
}

// Beside a port for requests, one for connections rotates as it always did.
func TestSilentServicesRotateOtherPorts(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addGreeter(t, "app.web.0")
	b.addGreeter(t, "app.web.1")
	rt := silentRoute([]api.Port{{Name: "http", Protocol: "http"}, {Name: "feed", Protocol: "tcp"}},
		a.endpoint("app.web.0"), b.endpoint("app.web.1"))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	a.patient()
	if got := visit(t, a.addr(t, "feed"), 10); got["app.web.0"] != 5 || got["app.web.1"] != 5 {
		t.Errorf("connections went to %v", got)
	}
}

// By connection, a policy by load that was asked for has the shares that it can say,
// and nobody gets everything.
func TestConnectionsByLoadPolicies(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{api.PolicyFastest, api.PolicyLeastConnections, api.PolicyLeastResponse,
		api.PolicyTwoChoices} {
		ca := newAuthority(t)
		a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
		a.addGreeter(t, "app.web.0")
		b.addGreeter(t, "app.web.1")
		rt := webRoute(a.endpoint("app.web.0"), b.endpoint("app.web.1"))
		rt.Policy = policy
		a.SetRoutes([]wire.Route{rt})
		b.SetRoutes([]wire.Route{rt})
		if got := visit(t, a.addr(t, "tcp"), 20); got["app.web.0"] < 8 || got["app.web.1"] < 8 {
			t.Errorf("%s: connections went to %v", policy, got)
		}
	}
}
