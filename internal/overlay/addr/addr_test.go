package addr

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/wire"
)

func lease(number uint32) *wire.Lease {
	return &wire.Lease{
		V: 1, Prefix: netip.MustParsePrefix("fd12:3456:789a::/48"), Number: number,
		IPv4: netip.MustParsePrefix("10.128.7.0/24"), Pool: netip.MustParsePrefix("10.128.0.0/9"),
		Services: netip.MustParsePrefix("10.30.0.0/16"),
	}
}

func space(t testing.TB, l *wire.Lease) Space {
	t.Helper()
	s, err := Of(l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSpaceOfALease(t *testing.T) {
	s := space(t, lease(0x01020304))
	for got, want := range map[string]string{
		s.Worker.String():                       "fd12:3456:789a:102:304::/80",
		s.Services.String():                     "fd12:3456:789a::/80",
		s.Host6.String():                        "fd12:3456:789a:102:304::1",
		s.Host4.String():                        "10.128.7.1",
		s.Instance(0x0a0b0c, 0x0d0e0f).String(): "fd12:3456:789a:102:304:a0b:c0d:e0f",
		s.Instance4(First4).String():            "10.128.7.2",
		s.Instance4(s.Last4()).String():         "10.128.7.254",
		s.WithoutIPv4().Instance4(2).String():   "invalid IP",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestBadLeases(t *testing.T) {
	for name, change := range map[string]func(*wire.Lease){
		"no prefix":     func(l *wire.Lease) { l.Prefix = netip.Prefix{} },
		"long prefix":   func(l *wire.Lease) { l.Prefix = netip.MustParsePrefix("fd00::/64") },
		"worker 0":      func(l *wire.Lease) { l.Number = 0 },
		"IPv6 as IPv4":  func(l *wire.Lease) { l.IPv4 = netip.MustParsePrefix("fd01::/112") },
		"no services":   func(l *wire.Lease) { l.Services = netip.Prefix{} },
		"overlap":       func(l *wire.Lease) { l.Services = netip.MustParsePrefix("10.128.0.0/16") },
		"a single host": func(l *wire.Lease) { l.IPv4 = netip.MustParsePrefix("10.128.7.1/32") },
	} {
		l := lease(1)
		change(l)
		if _, err := Of(l); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// Addresses of instances are unique, tell their application, and are never those
// of services.
func TestAddressesAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seen := map[netip.Addr][3]uint32{}
		for range 20 {
			w := rapid.Uint32Range(1, 1<<32-1).Draw(t, "worker")
			app := rapid.Uint32Range(0, MaxApp).Draw(t, "app")
			n := rapid.Uint32Range(1, MaxInstance).Draw(t, "instance")
			s, err := Of(lease(w))
			if err != nil {
				t.Fatal(err)
			}
			a := s.Instance(app, n)
			if who, dup := seen[a]; dup && who != [3]uint32{w, app, n} {
				t.Fatalf("%v and %v both have %s", who, [3]uint32{w, app, n}, a)
			}
			seen[a] = [3]uint32{w, app, n}
			if App(a) != app || !s.Worker.Contains(a) || s.Services.Contains(a) {
				t.Fatalf("%s is not what it should be", a)
			}
			svc := s.Service(app, "detector", rapid.StringMatching("[a-z]{1,9}").Draw(t, "policy"))
			if !s.Services.Contains(svc) || s.Worker.Contains(svc) {
				t.Fatalf("service address %s", svc)
			}
		}
	})
}

func TestServiceAddressIsStable(t *testing.T) {
	a, b := space(t, lease(1)), space(t, lease(2))
	if a.Service(7, "web", "closest") != b.Service(7, "web", "closest") {
		t.Error("two workers have different addresses for one service")
	}
	if got, want := a.Service(7, "web", "closest").String(), "fd12:3456:789a::871e:90f4:13a5"; got != want {
		t.Errorf("the address of a service has changed: %s, was %s", got, want)
	}
	if a.Service(7, "web", "closest") == a.Service(8, "web", "closest") {
		t.Error("two applications share an address")
	}
}

func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := NewNumbers(2, 9)
		held := map[string]uint32{}
		for range 60 {
			who := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}).Draw(t, "who")
			if rapid.Bool().Draw(t, "release") {
				n.Release(who)
				delete(held, who)
				continue
			}
			got, err := n.Take(who)
			if err != nil {
				if len(held) != 8 {
					t.Fatalf("refused with %d of 8 in use: %v", len(held), err)
				}
				continue
			}
			if had, ok := held[who]; ok && had != got {
				t.Fatalf("%s had %d and gets %d", who, had, got)
			}
			held[who] = got
			for other, x := range held {
				if other != who && x == got {
					t.Fatalf("%s and %s both have %d", who, other, got)
				}
			}
		}
	})
}

func TestNumbersAreReusedLate(t *testing.T) {
	n := NewNumbers(1, 3)
	a, _ := n.Take("a")
	n.Release("a")
	b, _ := n.Take("b")
	if a == b {
		t.Errorf("%d was given again at once", a)
	}
	if !n.Keep("c", 3) || n.Keep("d", 3) || n.Keep("d", 4) {
		t.Error("Keep took what it should not, or refused what it should take")
	}
}

func TestBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "services.json")
	network := netip.MustParsePrefix("10.30.0.0/29") // six addresses
	b, err := OpenBook(path, network)
	if err != nil {
		t.Fatal(err)
	}
	none := func(Key) bool { return false }
	all := func(Key) bool { return true }
	got := map[string]netip.Addr{}
	for _, s := range []string{"a", "b", "c", "d", "e", "f"} {
		a, err := b.Take(Key{"shop", s, "random"}, netip.Addr{}, all)
		if err != nil {
			t.Fatal(err)
		}
		if !network.Contains(a) || a == network.Addr() || a == netip.MustParseAddr("10.30.0.7") {
			t.Errorf("%s: %s", s, a)
		}
		for other, x := range got {
			if x == a {
				t.Errorf("%s and %s both have %s", s, other, a)
			}
		}
		got[s] = a
	}
	if err := b.Save(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Take(Key{"shop", "g", "random"}, netip.Addr{}, all); err == nil ||
		!strings.Contains(err.Error(), "larger network") {
		t.Errorf("a full book: %v", err)
	}
	again, err := OpenBook(path, network)
	if err != nil {
		t.Fatal(err)
	}
	for s, a := range got {
		if x, err := again.Take(Key{"shop", s, "random"}, netip.Addr{}, all); err != nil || x != a {
			t.Errorf("%s had %s, and after a restart %s (%v)", s, a, x, err)
		}
		if k, ok := again.At(a); !ok || k.Service != s {
			t.Errorf("%s is that of %v", a, k)
		}
	}
	if a, err := again.Take(Key{"shop", "g", "random"}, netip.Addr{}, none); err != nil || a != got["a"] {
		t.Errorf("the oldest that nobody uses should go: %s, %v", a, err)
	}
	if other, err := OpenBook(path, netip.MustParsePrefix("10.31.0.0/16")); err != nil || len(other.Records()) != 0 {
		t.Errorf("another network must begin empty: %v, %v", other.Records(), err)
	}
}

func TestFixedAddresses(t *testing.T) {
	b, _ := OpenBook("", netip.MustParsePrefix("10.30.0.0/16"))
	none := func(Key) bool { return false }
	want := netip.MustParseAddr("10.30.55.55")
	if a, err := b.Take(Key{"s", "a", "random"}, want, none); err != nil || a != want {
		t.Fatal(a, err)
	}
	for text, a := range map[string]string{"is that of": "10.30.55.55", "not one for services": "10.31.0.1"} {
		if _, err := b.Take(Key{"s", "b", "random"}, netip.MustParseAddr(a), none); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", a, err)
		}
	}
	for _, a := range []string{"10.30.0.0", "10.30.255.255"} {
		if _, err := b.Take(Key{"s", "b", "random"}, netip.MustParseAddr(a), none); err == nil {
			t.Errorf("%s was taken", a)
		}
	}
}

func TestDamagedBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "services.json")
	for _, text := range []string{"{", `{"v":0}`,
		`{"v":1,"network":"10.30.0.0/16","addresses":[{"app":"a","service":"b","policy":"c","addr":"1.1.1.1"}]}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := OpenBook(path, netip.MustParsePrefix("10.30.0.0/16"))
		if err == nil || !strings.Contains(err.Error(), "set aside") {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := b.Take(Key{"a", "b", "c"}, netip.Addr{}, func(Key) bool { return true }); err != nil {
			t.Error(err)
		}
	}
}

func TestClash(t *testing.T) {
	s := space(t, lease(3))
	net := func(p, dev string) HostNetwork { return HostNetwork{netip.MustParsePrefix(p), dev} }
	for _, c := range []struct {
		host   HostNetwork
		v4, v6 string
	}{
		{net("192.168.1.0/24", "eth0"), "", ""},
		{net("0.0.0.0/0", "eth0"), "", ""},
		{net("::/0", "eth0"), "", ""},
		{net("10.200.1.0/24", "eth0"), "--network-pool", ""},
		{net("10.0.0.0/8", "wlan0"), "--network-pool", ""},
		{net("10.30.5.1/24", "docker0"), "--network-services", ""},
		{net("fd12:3456:789a:5::/64", "eth1"), "", "made it at random"},
		{net("fd12:3456:789b::/48", "eth1"), "", ""},
	} {
		v4, v6 := s.Clash([]HostNetwork{c.host})
		for _, x := range []struct {
			err  error
			want string
		}{{v4, c.v4}, {v6, c.v6}} {
			switch {
			case x.want == "" && x.err != nil:
				t.Errorf("%v: %v", c.host, x.err)
			case x.want != "" && (x.err == nil || !strings.Contains(x.err.Error(), x.want) ||
				!strings.Contains(x.err.Error(), c.host.Device)):
				t.Errorf("%v: %v does not name %s and the device", c.host, x.err, x.want)
			}
		}
	}
}
