package standing

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/standing/publish"
	"github.com/verge-edge/verge/internal/wire"
)

func TestClaims(t *testing.T) {
	web := func(i api.Ingress) []api.Port { return []api.Port{{Name: "http", Protocol: "http", Ingress: &i}} }
	tcp := func(protocol string, port int) []api.Port {
		return []api.Port{{Name: "p", Protocol: protocol, Ingress: &api.Ingress{Port: port}}}
	}
	acme := api.IngressTLS{Mode: "acme"}
	c := Claims{}
	c.Add("shop.web", "a", web(api.Ingress{Host: "x.org", TLS: acme}))
	c.Add("shop.api", "a", web(api.Ingress{Host: "x.org", Paths: []string{"/api/"}, TLS: acme}))
	c.Add("db.db", "b", tcp("tcp", 5432))
	for name, k := range map[string]struct {
		namespace string
		ports     []api.Port
		code      string
	}{
		"the same path":            {"a", web(api.Ingress{Host: "X.org", Paths: []string{"/api"}, TLS: acme}), "host-taken"},
		"the whole host":           {"a", web(api.Ingress{Host: "x.org", TLS: acme}), "host-taken"},
		"another path":             {"a", web(api.Ingress{Host: "x.org", Paths: []string{"/img"}, TLS: acme}), ""},
		"of another namespace":     {"b", web(api.Ingress{Host: "x.org", Paths: []string{"/img"}, TLS: acme}), "host-taken"},
		"with another certificate": {"a", web(api.Ingress{Host: "x.org", Paths: []string{"/img"}}), "other-tls"},
		"another host":             {"b", web(api.Ingress{Host: "y.org"}), ""},
		"the same port":            {"a", tcp("tcp", 5432), "host-taken"},
		"the same port of udp":     {"a", tcp("udp", 5432), ""},
	} {
		err := c.Free(&api.Application{Application: "new", Namespace: k.namespace, Services: map[string]*api.Service{"s": {Ports: k.ports}}}, wire.Standing{}, nil, nil)
		var p *wire.Problem
		if errors.As(err, &p) != (k.code != "") || p != nil && p.Code != k.code {
			t.Errorf("%s: %v, want %q", name, err, k.code)
		}
	}
}

// BenchmarkConflict looks for what is in the way of a host among 10,000 of other namespaces.
func BenchmarkConflict(b *testing.B) {
	c := Claims{}
	for n := range 10_000 {
		c.Add(fmt.Sprintf("a%d.web", n), "theirs", []api.Port{{Name: "http", Ingress: &api.Ingress{Host: fmt.Sprintf("h%d.example", n)}}})
	}
	p := &api.Port{Name: "http", Ingress: &api.Ingress{Host: "mine.example"}}
	b.ReportAllocs()
	for b.Loop() {
		if by, _, _ := c.Conflict("", "ours", p, nil); by != "" {
			b.Fatal(by)
		}
	}
}

// A wildcard above or below a host of another namespace is refused, in either order.
func TestWildcardsOfOtherNamespaces(t *testing.T) {
	app := func(namespace, host string) *api.Application {
		return &api.Application{Application: "new", Namespace: namespace, Services: map[string]*api.Service{"s": {Ports: []api.Port{{Protocol: "http", Ingress: &api.Ingress{Host: host}}}}}}
	}
	for _, c := range []struct {
		there, asked, namespace, code string
	}{
		{"b.test", "*.b.test", "b", "host-taken"},
		{"*.b.test", "b.test", "b", "host-taken"},
		{"x.b.test", "*.b.test", "b", "host-taken"},
		{"*.b.test", "x.b.test", "b", "host-taken"},
		{"*.b.test", "*.c.b.test", "b", "host-taken"},
		{"*.c.b.test", "b.test", "b", "host-taken"},
		{"B.test", "*.b.Test", "b", "host-taken"},
		{"b.test", "*.b.test", "a", ""},
		{"b.test", "x.b.test", "b", ""}, // no wildcard
		{"b.test", "*.bb.test", "b", ""},
		{"*.a.test", "*.b.test", "b", ""},
	} {
		taken := Claims{}
		taken.Add("theirs.s", "a", app("a", c.there).Services["s"].Ports)
		err := taken.Free(app(c.namespace, c.asked), wire.Standing{}, nil, nil)
		var p *wire.Problem
		if errors.As(err, &p) != (c.code != "") || p != nil && p.Code != c.code {
			t.Errorf("%s beside %s: %v, want %q", c.asked, c.there, err, c.code)
		}
		if c.code == "" {
			continue
		}
		if !strings.Contains(err.Error(), "services.s.ports[0].ingress") || !strings.Contains(err.Error(), "verge namespace standing b weight=1,hosts=any+"+strings.ToLower(c.asked)) {
			t.Errorf("it does not say where, or what to do: %v", err)
		}
		// An administrator allows it, and what there was before stays.
		if err := taken.Free(app(c.namespace, c.asked), wire.Standing{}, publish.Rules{"b": {Hosts: strings.ToLower(c.asked)}}, nil); err != nil {
			t.Errorf("%s beside %s, as an administrator allows: %v", c.asked, c.there, err)
		}
		if err := taken.Free(app(c.namespace, c.asked), wire.Standing{}, nil, app(c.namespace, c.asked).Services["s"].Ports); err != nil {
			t.Errorf("%s beside %s, as before: %v", c.asked, c.there, err)
		}
	}
}
