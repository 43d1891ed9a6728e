package publish

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

func TestParseWhatANamespaceMayPublish(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "any": "", "NONE": "none", "localhost+any": "any+localhost", "B.test+*.a.test+b.test": "*.a.test+b.test",
		"none+a.test": "!stands alone", "a.test+": "!is not a host name", "*.org": "!every name", "a.*.test": "!wildcard within", "10.0.0.1": "!address",
	} {
		got, err := ParseHosts(text)
		if problem, bad := strings.CutPrefix(want, "!"); bad != (err != nil) || bad && !strings.Contains(err.Error(), problem) || !bad && got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if again, _ := ParseHosts(got); again != got {
			t.Errorf("%q: parsed again it is %q", got, again)
		}
	}
	for text, want := range map[string]string{
		"5432": "5432", "53/udp+5432/TCP": "53/udp+5432/tcp", "6000-6099+any": "6000-6099+any", "any": "",
		"0": "!not a port", "70000": "!not a port", "2-1": "!not a port", "53/icmp": "!not a port", "53/": "!not a port", "-": "!not a port",
	} {
		got, err := ParsePorts(text)
		if problem, bad := strings.CutPrefix(want, "!"); bad != (err != nil) || bad && !strings.Contains(err.Error(), problem) || !bad && got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
		if again, _ := ParsePorts(got); again != got {
			t.Errorf("%q: parsed again it is %q", got, again)
		}
	}
}

func TestRules(t *testing.T) {
	web := func(host string) api.Port { return api.Port{Protocol: "http", Ingress: &api.Ingress{Host: host}} }
	port := func(number int, protocol string) api.Port {
		return api.Port{Protocol: protocol, Ingress: &api.Ingress{Port: number}}
	}
	rules := Rules{
		"shop":     {Hosts: "*.shop.test+shop.test", Ports: "5432/tcp+6000-6099"},
		"blog":     {Hosts: "any+blog.shop.test+localhost", Ports: "any+6001"},
		"platform": {Hosts: "*.test"},
		"quiet":    {Hosts: "none", Ports: "none"},
	}
	for _, c := range []struct {
		namespace string
		port      api.Port
		why       string // "" where it is allowed
	}{
		{"shop", web("Shop.test"), ""},
		{"shop", web("a.b.shop.test"), ""},
		{"shop", web("*.b.shop.test"), ""},
		{"shop", web("*.shop.test"), ""},
		{"shop", web("blog.shop.test"), "blog.shop.test is reserved for another namespace"},
		{"shop", web("shop.example"), "shop.example is not among what namespace shop may publish (*.shop.test+shop.test)"},
		{"shop", web("localhost"), "reserved for another"},
		{"blog", web("blog.shop.test"), ""},
		{"blog", web("localhost"), ""},
		{"blog", web("hello.localhost"), ""},
		{"blog", web("*.localhost"), "*.localhost is a name of every machine"},
		{"blog", web("shop.test"), "reserved"},
		{"blog", web("a.shop.test"), "reserved"},
		{"blog", web("*.example"), ""},
		{"platform", web("x.test"), ""},
		{"platform", web("shop.test"), "reserved"},
		{"platform", web("*.test"), ""},
		{"quiet", web("any.example"), "not among"},
		{"other", web("hello.localhost"), ""},
		{"other", web("*.a.hello.localhost"), "would include names that are reserved"},
		{"other", web("y.test"), "reserved"},
		{"other", web("any.example"), ""},
		{"other", port(5432, ""), "port 5432/tcp is reserved for another namespace"},
		{"other", port(5432, "udp"), ""},
		{"other", port(6050, "udp"), "reserved"},
		{"other", port(7000, ""), ""},
		{"shop", port(6050, "udp"), ""},
		{"shop", port(6001, ""), "reserved"},
		{"blog", port(6001, ""), ""},
		{"shop", port(7000, ""), "not among"},
		{"quiet", port(7000, ""), "not among"},
		{"quiet", api.Port{}, ""},
	} {
		why := rules.Forbids(c.namespace, &c.port)
		if (c.why == "") != (why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s, %+v: %q, want %q", c.namespace, c.port.Ingress, why, c.why)
		}
	}
	for host, forbidden := range map[string]bool{"localhost": true, "*.localhost": true, "localhost.localdomain": true, "hello.localhost": false, "any.example": false} {
		p := web(host)
		if why := Rules(nil).Forbids("any", &p); (why != "") != forbidden {
			t.Errorf("without rules %s: %q", host, why)
		}
	}
}
