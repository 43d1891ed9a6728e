package names

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Name{
		"web.default.shop.default.verge.internal.": {-1, "", "web", "default", "shop", "default", "", ""},
		"closest.web.default.shop.default.verge.internal.": {-1, "closest", "web", "default", "shop", "default", "",
			""},
		"ANY.closest.Web.default.shop.default.VERGE.internal.": {-1, "closest", "web", "default", "shop", "default", "",
			""},
		"3.instance.web.a.shop.b.verge.internal.": {3, "instance", "web", "a", "shop", "b", "", ""},
		"_http._tcp.web.a.shop.b.verge.internal.": {-1, "", "web", "a", "shop", "b", "http", "tcp"},
	} {
		if got, inside, ok := Parse(text); got != want || !inside || !ok {
			t.Errorf("%s: %+v, %v, %v", text, got, inside, ok)
		}
	}
	for _, text := range []string{"verge.internal.", "web.verge.internal.", "a.b.c.d.e.f.g.verge.internal.",
		"x.closest.web.a.shop.b.verge.internal.", "01.closest.web.a.shop.b.verge.internal."} {
		if _, inside, ok := Parse(text); !inside || ok {
			t.Errorf("%s: inside %v, ok %v", text, inside, ok)
		}
	}
	for _, text := range []string{".", "example.com.", "xverge.internal.", "verge.internal.example."} {
		if _, inside, _ := Parse(text); inside {
			t.Errorf("%s is not one of ours", text)
		}
	}
}

func TestResolver(t *testing.T) {
	got := string(Resolver([]netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("10.128.1.1")}, "shop",
		"default"))
	want := "nameserver fd00::1\nnameserver 10.128.1.1\nsearch default.shop.default.verge.internal\n" +
		"options ndots:3 timeout:2 attempts:2\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

var service6, service4 = netip.MustParseAddr("fd00::7"), netip.MustParseAddr("10.30.0.7")

func find(n Name) Answer {
	switch {
	case n.App != "shop" || n.Service != "web" || n.Instance > 2:
		return Answer{}
	case n.Instance >= 0:
		return Answer{Found: true, Addrs: []netip.Addr{netip.MustParseAddr("fd00::100")}}
	}
	return Answer{Found: true, Addrs: []netip.Addr{service6, service4}, Ports: []Port{{"http", "tcp", 80}}}
}

func serve(t *testing.T, o Options) (at string, s *Server) {
	t.Helper()
	l, err := Listen(t.Context(), &net.ListenConfig{}, netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	s = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-done })
	return l.Addr().String(), s
}

func ask(t *testing.T, at, network, name string, kind uint16) *dns.Msg {
	t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name, kind)
	m, _, err := (&dns.Client{Net: network, Timeout: 5 * time.Second}).Exchange(q, at)
	if err != nil {
		t.Fatalf("%s %s: %v", name, network, err)
	}
	return m
}

const web = "web.default.shop.default." + Zone

func TestAnswers(t *testing.T) {
	at, _ := serve(t, Options{Find: find, Upstream: func() []string { return nil }})
	long := strings.Repeat(strings.Repeat("x", 62)+".", 3) + strings.Repeat("y", 255-3*63-len(Zone)-2) + "." + Zone
	for _, c := range []struct {
		name  string
		kind  uint16
		rcode int
		want  string
	}{
		{web, dns.TypeAAAA, dns.RcodeSuccess, "fd00::7"},
		{web, dns.TypeA, dns.RcodeSuccess, "10.30.0.7"},
		{"closest." + web, dns.TypeA, dns.RcodeSuccess, "10.30.0.7"},
		{"1.instance." + web, dns.TypeAAAA, dns.RcodeSuccess, "fd00::100"},
		{"1.instance." + web, dns.TypeA, dns.RcodeSuccess, ""},
		{"9.instance." + web, dns.TypeA, dns.RcodeNameError, ""},
		{web, dns.TypeTXT, dns.RcodeSuccess, ""},
		{web, dns.TypeMX, dns.RcodeSuccess, ""},
		{"_http._tcp." + web, dns.TypeSRV, dns.RcodeSuccess, web},
		{"_http._udp." + web, dns.TypeSRV, dns.RcodeNameError, ""},
		{web, dns.TypeSRV, dns.RcodeSuccess, web},
		{"db.default.shop.default." + Zone, dns.TypeA, dns.RcodeNameError, ""},
		{Zone, dns.TypeA, dns.RcodeNameError, ""},
		{long, dns.TypeA, dns.RcodeNameError, ""},
		{"example.com.", dns.TypeA, dns.RcodeServerFailure, ""},
		{"example.", dns.TypeA, dns.RcodeNameError, ""},
	} {
		for _, network := range []string{"udp", "tcp"} {
			m := ask(t, at, network, c.name, c.kind)
			got := ""
			if len(m.Answer) > 0 {
				switch r := m.Answer[0].(type) {
				case *dns.A:
					got = r.A.String()
				case *dns.AAAA:
					got = r.AAAA.String()
				case *dns.SRV:
					got = r.Target
				}
				if m.Answer[0].Header().Ttl != ttl {
					t.Errorf("%s: ttl %d", c.name, m.Answer[0].Header().Ttl)
				}
			} else if strings.HasSuffix(c.name, Zone) && len(m.Ns) != 1 {
				t.Errorf("%s: no SOA, so nobody remembers that there is nothing", c.name)
			}
			if m.Rcode != c.rcode || got != c.want {
				t.Errorf("%s %s over %s: %s %q, want %s %q", c.name, dns.TypeToString[c.kind], network,
					dns.RcodeToString[m.Rcode], got, dns.RcodeToString[c.rcode], c.want)
			}
		}
	}
}

func TestForwards(t *testing.T) {
	up, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &dns.Server{PacketConn: up, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.Answer = append(m.Answer,
			&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1},
				A: net.IPv4(192, 0, 2, 1)})
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }() // it ends with the test
	defer srv.Shutdown()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	at, s := serve(t, Options{Find: find,
		Upstream: func() []string { return []string{silent.LocalAddr().String(), up.LocalAddr().String()} }})
	if m := ask(t, at, "udp", "example.com.", dns.TypeA); len(m.Answer) != 1 {
		t.Errorf("not forwarded: %v", m)
	}
	// While those wait that nobody answers, our own names are answered.
	at2, s2 := serve(t, Options{Find: find, Upstream: func() []string { return []string{silent.LocalAddr().String()} }})
	c, err := net.Dial("udp", at2)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range maxForwarded + 10 {
		q := new(dns.Msg)
		q.SetQuestion("example.com.", dns.TypeA)
		q.Id = uint16(i)
		b, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if m := ask(t, at2, "udp", web, dns.TypeA); len(m.Answer) != 1 {
		t.Errorf("not answered while others wait: %v", m)
	}
	if s.Failed.Load() != 0 {
		t.Error("what was answered in the end counts as failed")
	}
	_ = s2
}

func TestFlood(t *testing.T) {
	s := New(Options{Find: find})
	from := func(i byte) net.Addr { return &net.UDPAddr{IP: net.IPv4(10, 0, 0, i), Port: 1} }
	n := 0
	for range 10 * atOnce {
		if s.allowed(from(1)) {
			n++
		}
	}
	if n < atOnce || n > 3*atOnce {
		t.Errorf("%d of a flood were let through", n)
	}
	if !s.allowed(from(2)) {
		t.Error("another sender suffers from it")
	}
	for i := range 2 * maxSenders {
		s.allowed(&net.UDPAddr{IP: net.IPv4(10, 1, byte(i>>8), byte(i))})
	}
	if len(s.senders) > maxSenders {
		t.Errorf("%d senders are remembered", len(s.senders))
	}
}
