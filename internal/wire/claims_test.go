package wire

import (
	"errors"
	"fmt"
	"testing"

	"github.com/verge-edge/verge/api"
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
		err := c.Free(&api.Application{Application: "new", Namespace: k.namespace, Services: map[string]*api.Service{"s": {Ports: k.ports}}}, Standing{}, nil, nil)
		var p *Problem
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
