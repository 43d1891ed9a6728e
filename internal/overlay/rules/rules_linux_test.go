package rules

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/overlay/overlaytest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { overlaytest.Main(m) }

func ip(s string) netip.Addr        { return netip.MustParseAddr(s) }
func ap(s string) netip.AddrPort    { return netip.MustParseAddrPort(s) }
func network(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func model() *Model {
	return &Model{
		Space: Space{
			Root: network("fd00:1:2::/48"), Worker: network("fd00:1:2:0:1::/80"), Services: network("fd00:1:2::/80"),
			Host6: ip("fd00:1:2:0:1::1"),
			Pool:  network("10.128.0.0/9"), Worker4: network("10.128.1.0/24"), Services4: network("10.30.0.0/16"),
			Host4: ip("10.128.1.1"),
		},
		Devices: Devices{Own: "vgtst", Links: "vgtsti", Services: "vgtsts", Peers: "vgtstw"},
		Links: []Link{
			{Device: "vgtsti1", App: 1, Addr6: ip("fd00:1:2:0:1:0:100:1"), Addr4: ip("10.128.1.2")},
			{Device: "vgtsti2", App: 2, Addr6: ip("fd00:1:2:0:1:0:200:2")},
		},
		Services: []Service{{
			Name: "a.web/random", Addr6: ip("fd00:1:2::77"), Addr4: ip("10.30.0.7"),
			Ports: []Port{{
				Proto: "tcp", Port: 80,
				To6: []Backend{{ap("[fd00:1:2:0:1:0:100:1]:80"), 3}, {ap("[fd00:1:2:0:9:0:100:5]:80"), 1}},
				To4: []Backend{{ap("10.128.1.2:80"), 0}},
			}},
		}, {
			Name: "a.queue/round-robin", Addr6: ip("fd00:1:2::78"),
			Ports: []Port{{Proto: "udp", Port: 53, Rotate: true,
				To6: []Backend{{ap("[fd00:1:2:0:1:0:100:1]:5353"), 2}, {ap("[fd00:1:2:0:9:0:100:5]:53"), 2}}}},
		}},
		Apps4:    map[netip.Addr]uint32{ip("10.128.9.3"): 1},
		Exported: []Target{{ip("fd00:1:2:0:1:0:200:2"), "tcp", 443}, {ip("10.128.9.3"), "udp", 53}},
	}
}

func TestGolden(t *testing.T) {
	for name, change := range map[string]func(*Model){
		"both": func(*Model) {},
		"ipv6": func(m *Model) {
			m.Space.Pool, m.Space.Worker4, m.Space.Services4, m.Space.Host4 = netip.Prefix{}, netip.Prefix{},
				netip.Prefix{}, netip.Addr{}
		},
		"empty": func(m *Model) { m.Links, m.Services, m.Apps4, m.Exported = nil, nil, nil, nil },
	} {
		m := model()
		change(m)
		got, err := Text(m)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s; if that is meant, run the test with -update\n%s", name, path, got)
		}
	}
}

func TestShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "n")
		rotate := rapid.Bool().Draw(t, "rotate")
		var list []Backend
		var total float64
		for i := range n {
			w := rapid.Uint32Range(0, 1<<16).Draw(t, "weight")
			list = append(list, Backend{netip.AddrPortFrom(ip(fmt.Sprintf("fd00::%x", i+1)), 80), w})
			total += float64(w)
		}
		modulus, parts := shares(list, rotate)
		at := uint32(0)
		got := map[netip.AddrPort]float64{}
		for _, s := range parts {
			if s.first != at || s.end <= s.first {
				t.Fatalf("hole or overlap at %d: %+v", at, parts)
			}
			at = s.end
			got[s.to] = float64(s.end-s.first) / float64(modulus)
		}
		if at != modulus || modulus == 0 {
			t.Fatalf("ends at %d of %d", at, modulus)
		}
		for _, b := range list {
			want := 1 / float64(n)
			if total > 0 {
				want = float64(b.Weight) / total
			}
			if diff := got[b.To] - want; diff > 1.0/random || diff < -1.0/random {
				t.Fatalf("%s: share %v instead of %v", b.To, got[b.To], want)
			}
		}
	})
}

func TestImpossibleModels(t *testing.T) {
	for name, change := range map[string]func(*Model){
		"same address": func(m *Model) { m.Services[1].Addr6 = m.Services[0].Addr6 },
		"same service": func(m *Model) { m.Services[1].Name = m.Services[0].Name },
		"protocol":     func(m *Model) { m.Services[1].Ports[0].Proto = "sctp" },
	} {
		m := model()
		change(m)
		if _, err := Text(m); err == nil {
			t.Errorf("%s: compiled", name)
		}
	}
}

func table(t testing.TB) *Table {
	t.Helper()
	overlaytest.Need(t)
	tab, err := Open("tst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tab.Remove(); err != nil {
			t.Error(err)
		}
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	})
	return tab
}

func apply(t testing.TB, tab *Table, m *Model) {
	t.Helper()
	if err := tab.Apply(m); err != nil {
		t.Fatal(err)
	}
}

// nft runs the program that others change rules with.
func nft(t testing.TB, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("nft")
	if err != nil {
		overlaytest.Without(t, "needs nft")
	}
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	return string(out)
}

// listing is what the kernel has, without what differs from run to run.
func listing(t testing.TB) string {
	t.Helper()
	return nft(t, "-n", "list", "ruleset")
}

// However a model is reached, the kernel has the same in the end.
func TestChangesEndInTheSame(t *testing.T) {
	tab := table(t)
	apply(t, tab, model())
	want := sorted(listing(t))
	apply(t, tab, model())
	if got := sorted(listing(t)); got != want {
		t.Errorf("applied twice:\n%s", difference(want, got))
	}
	// The change after a change removes what packets may still have been on their way
	// to.
	settle := func(m *Model) { apply(t, tab, m); apply(t, tab, m) }
	for name, change := range map[string]func(*Model){
		"a weight":    func(m *Model) { m.Services[0].Ports[0].To6[0].Weight = 7 },
		"no services": func(m *Model) { m.Services = nil },
		"one more": func(m *Model) {
			m.Services = append(m.Services,
				Service{Name: "x", Addr6: ip("fd00:1:2::99")})
		},
		"another link": func(m *Model) {
			m.Links = append(m.Links, Link{Device: "vgtsti9", App: 3, Addr6: ip("fd00:1:2:0:1:0:300:1")})
			m.Links = m.Links[1:]
		},
		"empty": func(m *Model) { m.Links, m.Services, m.Apps4, m.Exported = nil, nil, nil, nil },
		"an address": func(m *Model) {
			m.Services[0].Addr6, m.Services[1].Addr6 = m.Services[1].Addr6,
				m.Services[0].Addr6
		},
		"another space": func(m *Model) { m.Space.Host6 = ip("fd00:1:2:0:1::2") },
		"other app":     func(m *Model) { m.Links[0].App = 4 },
	} {
		m := model()
		change(m)
		settle(m)
		if got := sorted(listing(t)); got == want {
			t.Errorf("%s: nothing changed", name)
		}
		changed := sorted(listing(t))
		tab.Forget()
		apply(t, tab, m)
		if got := sorted(listing(t)); got != changed {
			t.Errorf("%s: a change and all anew differ:\n%s", name, difference(got, changed))
		}
		settle(model())
		if got := sorted(listing(t)); got != want {
			t.Errorf("%s: and back:\n%s", name, difference(want, got))
		}
	}
}

func sorted(s string) string {
	lines := strings.FieldsFunc(s,
		func(r rune) bool { return r == '\n' || r == ',' || r == '{' || r == '}' || r == '=' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
		if strings.Contains(lines[i], "packets") {
			lines[i] = ""
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Tables of others stay, and a second worker's.
func TestOthersAreLeftAlone(t *testing.T) {
	tab := table(t)
	nft(t, "add table inet other; add chain inet other c; add table inet verge-ts")
	defer nft(t, "delete table inet other; delete table inet verge-ts")
	apply(t, tab, model())
	if err := tab.Remove(); err != nil {
		t.Fatal(err)
	}
	got := listing(t)
	if strings.Contains(got, "verge-tst") || !strings.Contains(got, "table inet other") ||
		!strings.Contains(got, "table inet verge-ts") {
		t.Errorf("left:\n%s", got)
	}
}

func TestTamperingIsNoticed(t *testing.T) {
	tab := table(t)
	listing(t) // needs nft
	seen := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tab.Watch(ctx, func() { seen <- struct{}{} }, nil) }()
	for _, command := range []string{"flush ruleset", "delete table inet verge-tst",
		"flush chain inet verge-tst forward", "flush set inet verge-tst link6"} {
		apply(t, tab, model())
		// The watch may begin a moment later than this.
		deadline := time.Now().Add(10 * time.Second)
		for noticed := false; !noticed && time.Now().Before(deadline); {
			nft(t, command)
			select {
			case <-seen:
				noticed = true
			case <-time.After(100 * time.Millisecond):
				tab.Forget()
				apply(t, tab, model())
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s was not noticed", command)
		}
		for len(seen) > 0 {
			<-seen
		}
		tab.Forget()
		apply(t, tab, model())
		if tab.damaged() {
			t.Errorf("after %q and a new Apply it counts as damaged", command)
		}
	}
	// What we do ourselves is no news, nor what others do elsewhere.
	for len(seen) > 0 {
		<-seen
	}
	m := model()
	m.Services = nil
	apply(t, tab, m)
	nft(t, "add table inet other; delete table inet other")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(seen) > 0 {
		t.Error("our own change counts as somebody else's")
	}
}

// A change after somebody took the table away is no error: all is written anew.
func TestApplyMends(t *testing.T) {
	tab := table(t)
	apply(t, tab, model())
	want := sorted(listing(t))
	nft(t, "flush ruleset")
	m := model()
	m.Services = m.Services[:1]
	apply(t, tab, m)
	apply(t, tab, model())
	if got := sorted(listing(t)); got != want {
		t.Errorf("mended:\n%s", difference(want, got))
	}
}

func many(services, endpoints int, rotate bool) *Model {
	m := model()
	m.Services = nil
	for i := range services {
		p := Port{Proto: "tcp", Port: 80, Rotate: rotate}
		for e := range endpoints {
			p.To6 = append(p.To6, Backend{netip.AddrPortFrom(ip(fmt.Sprintf("fd00:1:2:0:1:%x:%x:1", i, e)), 80), 1})
			p.To4 = append(p.To4, Backend{netip.AddrPortFrom(ip(fmt.Sprintf("10.128.%d.%d", e, i%250)), 80), 1})
		}
		m.Services = append(m.Services, Service{
			Name:  fmt.Sprintf("a.s%d/random", i),
			Addr6: ip(fmt.Sprintf("fd00:1:2::%x", 0x1000+i)),
			Addr4: netip.AddrFrom4([4]byte{10, 30, byte(i >> 8), byte(i)}),
			Ports: []Port{p},
		})
	}
	return m
}

// A thousand services fit into one transaction. While it is made nobody listens, yet
// what somebody else does is noticed, then and later.
func TestManyServices(t *testing.T) {
	tab := table(t)
	seen := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tab.Watch(ctx, func() { seen <- struct{}{} }, nil) }()
	for listens := false; !listens; {
		tab.mu.Lock()
		listens = tab.watch != nil
		tab.mu.Unlock()
		runtime.Gosched()
	}
	apply(t, tab, many(1000, 10, true))
	if tab.doubt {
		t.Error("our own change counts as somebody else's")
	}
	if tab.damaged() {
		t.Error("not all of it is there")
	}
	if len(seen) > 0 {
		t.Error("our own change was noticed")
	}
	nft(t, "flush chain inet verge-tst forward")
	select {
	case <-seen:
	case <-time.After(10 * time.Second):
		t.Error("after a large change nothing is noticed")
	}
	// Each transaction is one generation, by which another's would be told.
	b := newBatch(tab.name, 0)
	b.elements(setKnown6, make([]element, 0), true)
	for i := range 2000 {
		b.elements(setKnown6, []element{{key: netip.AddrFrom16([16]byte{0xfd, 14: byte(i >> 8),
			15: byte(i)}).AsSlice()}}, true)
	}
	tab.mu.Lock()
	before, err := tab.generation()
	if err == nil {
		err = tab.send(b)
	}
	after, _ := tab.generation()
	tab.mu.Unlock()
	if err != nil || after != before+1 {
		t.Errorf("generation %d, then %d: %v", before, after, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// kinds of services: by lot, and in turn.
var kinds = map[string]bool{"lot": false, "turn": true}

// BenchmarkFull writes 1,000 services of 10 endpoints, in both families.
func BenchmarkFull(b *testing.B) {
	for kind, rotate := range kinds {
		b.Run(kind, func(b *testing.B) {
			tab := table(b)
			m := many(1000, 10, rotate)
			defer cpu(b)()
			for b.Loop() {
				tab.Forget()
				apply(b, tab, m)
			}
		})
	}
}

// BenchmarkOne changes one of them.
func BenchmarkOne(b *testing.B) {
	for kind, rotate := range kinds {
		b.Run(kind, func(b *testing.B) {
			tab := table(b)
			m := many(1000, 10, rotate)
			apply(b, tab, m)
			defer cpu(b)()
			for b.Loop() {
				m.Services[500].Ports[0].To6[0].Weight++
				apply(b, tab, m)
			}
		})
	}
}

// cpu reports what one round takes of processors, the kernel's part with it.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := used()
	return func() { b.ReportMetric(float64(used()-began)/1e6/float64(b.N), "cpu-ms/op") }
}

// difference of two sorted listings.
func difference(want, got string) string {
	count := map[string]int{}
	for _, l := range strings.Split(got, "\n") {
		count[l]++
	}
	for _, l := range strings.Split(want, "\n") {
		count[l]--
	}
	var b strings.Builder
	for _, l := range slices.Sorted(maps.Keys(count)) {
		if count[l] != 0 {
			fmt.Fprintf(&b, "%+d %s\n", count[l], l)
		}
	}
	return b.String()
}
