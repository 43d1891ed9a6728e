package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/overlay/nstest"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// told is what a worker says about its network once it is as it should be.
func (b *bench) told(mode, why string) {
	b.t.Helper()
	b.until("its network is "+mode+" because of "+why, func() bool {
		n := b.info().Network
		return n != nil && n.Mode == mode && strings.Contains(n.Why, why) && (why != "" || n.Why == "")
	})
}

// stop ends the engine and its instances.
func (b *bench) stop() {
	b.t.Helper()
	if status, text := b.do(http.MethodPost, "/v1/shutdown", nil); status != http.StatusAccepted {
		b.t.Fatalf("shutdown: %d %s", status, text)
	}
	_ = b.cmd.Wait() // how it ended is not asked
	b.http.CloseIdleConnections()
}

func nft(t *testing.T, rules string) string {
	t.Helper()
	out, err := exec.Command("nft", strings.Fields(rules)...).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v: %s", rules, err, out)
	}
	return string(out)
}

// An engine that may do without the service network has it where it can, and says
// why where it cannot. What runs is never cut off by another choice.
func TestNetworkIsChosen(t *testing.T) {
	if overlaytest.Again(t) {
		return
	}
	o := networked(t)
	o.Orders[0].Spec.Env = map[string]string{beServer: "given"}
	runs := func(b *bench) wire.InstanceStatus {
		t.Helper()
		b.until("it is ready", func() bool { return b.status(web0).Ready })
		return b.status(web0)
	}

	// Rules of others would drop what instances send: it goes without, and says what to
	// do about it.
	nft(t, "add table ip filter")
	nft(t, "add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }")
	b := newBenchWith(t, wire.NetworkAuto)
	b.told(wire.NetworkLoopback, "iptables -I FORWARD -i vg+ -j ACCEPT")
	b.put(o)
	was := runs(b)
	if len(was.Addrs) > 0 {
		t.Errorf("addresses without service network: %v", was.Addrs)
	}
	nft(t, "delete table ip filter")

	// It could have it now, but what runs goes on as it is, and stays where it is reached.
	for _, mode := range []string{wire.NetworkAuto, wire.NetworkOverlay} {
		b.kill()
		b.configure(mode)
		b.start()
		b.told(wire.NetworkLoopback, network.StaysOutside)
		if now := runs(b); now.PID != was.PID || now.Ports["http"] != was.Ports["http"] {
			t.Errorf("with --network %s: was %+v, is %+v", mode, was, now)
		}
	}
	b.configure(wire.NetworkAuto)
	b.stop()
	b.start()
	b.told(wire.NetworkOverlay, "")
	was = runs(b)
	if len(was.Addrs) != 2 || was.Ports["http"] != 80 {
		t.Errorf("in the service network: %+v", was)
	}

	// Programs of the machine itself find services where the worker says that they are.
	var entries []rpc.EntryView
	if status, text := b.do(http.MethodGet, "/v1/entries", nil); status != http.StatusOK ||
		json.Unmarshal([]byte(text), &entries) != nil || len(entries) != 4 {
		t.Fatalf("entries: %d %s", status, text)
	}
	for i, from := range []string{"10.30.", "127.0.0.1:"} { // as long as it had none it gave others
		e := entries[2+i]
		if e.Service != "web" || !strings.HasPrefix(e.Addr, from) || e.Problem != "" {
			t.Errorf("entries: %+v", entries)
		}
		if text, err := get("http://" + e.Addr); err != nil || text != itoa(was.PID) {
			t.Errorf("%s answers %q, %v", e.Addr, text, err)
		}
	}

	// A second worker of the machine goes without and names the first, whose rules it
	// leaves alone; where it must not go without, it waits.
	tables := nft(t, "-a list tables") // a table that is written anew has another number
	second := newBenchWith(t, wire.NetworkAuto)
	second.told(wire.NetworkLoopback, "worker edge/w1, in "+b.dir+", process ")
	second.put(o)
	if s := runs(second); len(s.Addrs) > 0 || s.Ports["http"] == 80 {
		t.Errorf("the second: %+v", s)
	}
	second.stop()
	second.configure(wire.NetworkOverlay)
	second.start()
	second.told(wire.NetworkOverlay, "worker edge/w1, in "+b.dir)
	second.until("it waits", func() bool {
		s := second.status(web0)
		return s.Phase == wire.PhasePending && strings.Contains(s.Why, "can't have the service network")
	})
	if now := nft(t, "-a list tables"); now != tables {
		t.Errorf("the tables were\n%s\nand are\n%s", tables, now)
	}
	if text, err := get("http://" + netip.AddrPortFrom(was.Addrs[0], 80).String()); err != nil ||
		text != itoa(was.PID) {
		t.Errorf("the first answers %q, %v", text, err)
	}

	// The first is killed: its part is still there, in which its instances are.
	b.kill()
	second.stop()
	second.configure(wire.NetworkAuto)
	second.start()
	second.told(wire.NetworkLoopback, "worker edge/w1, in "+b.dir+", has left its part")
	second.stop()

	// Settings that say loopback do not cut off what runs in the network.
	b.configure(wire.NetworkLoopback)
	b.start()
	b.told(wire.NetworkOverlay, network.StaysInside)
	if now := runs(b); now.PID != was.PID || now.Addrs[0] != was.Addrs[0] {
		t.Errorf("was %+v, is %+v", was, now)
	}
	b.stop()
	b.start()
	b.told(wire.NetworkLoopback, network.NotAsked)
	if s := runs(b); len(s.Addrs) > 0 || s.Ports["http"] == 80 {
		t.Errorf("without: %+v", s)
	}
	b.kill() // what was in the network once and is not any more is not taken for it
	b.start()
	b.told(wire.NetworkLoopback, network.NotAsked)
	b.stop()
	if n := devices(t); n != 0 || strings.Contains(nft(t, "list tables"), "verge") {
		t.Errorf("%d devices are left, and tables: %s", n, nft(t, "list tables"))
	}
}

// inProcess is an engine within the test, that waits a moment for its place.
func inProcess(t *testing.T, within time.Duration) *Engine {
	t.Helper()
	e, err := New(Options{
		Dir: t.TempDir(), Drivers: fakeDrivers(), Config: engineapi.EngineConfig{
			V: wire.Version, Worker: "w1", Cluster: "edge", Network: wire.NetworkAuto,
			Capacity: api.Resources{CPU: 4000, Memory: 4 << 30, Disk: 4 << 30},
		},
		replaced: replacements{placeWithin: within},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return e
}

func (e *Engine) awaitMode(t *testing.T, mode, why string) {
	t.Helper()
	for seq := uint64(0); ; {
		s, err := e.State(t.Context(), seq, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Info.Network; n != nil && n.Mode == mode && strings.Contains(n.Why, why) {
			return
		}
		if seq == s.Seq {
			t.Fatalf("its network stays %+v, want %s: %s", s.Info.Network, mode, why)
		}
		seq = s.Seq
	}
}

// A cluster that gives no place, none with IPv4, or one whose addresses are taken on
// this machine, leaves the worker without the service network, and nothing of it.
func TestNoPlaceInTheNetwork(t *testing.T) {
	if overlaytest.Again(t) {
		return
	}
	o := networked(t)
	with := func(change func(*wire.Lease)) engineapi.EngineOrders {
		var l wire.Lease
		if err := json.Unmarshal(o.Network.Lease.Body, &l); err != nil {
			t.Fatal(err)
		}
		change(&l)
		body, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		out := o
		out.Network = &wire.Network{V: wire.Version, Lease: wire.SignedLease{Body: body}}
		return out
	}
	for _, cmd := range []string{"link add lan0 type veth peer name lan1", "link set lan0 up",
		"addr add 10.77.1.5/16 dev lan0"} {
		if out, err := exec.Command("ip", strings.Fields(cmd)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", cmd, err, out)
		}
	}
	for _, c := range []struct {
		name, why string
		orders    engineapi.EngineOrders
	}{
		{"none", network.NoPlace, func() engineapi.EngineOrders { x := o; x.Network = nil; return x }()},
		{"no IPv4", "used up", with(func(l *wire.Lease) { l.IPv4 = netip.Prefix{} })},
		{"taken", "10.77.0.0/16", with(func(l *wire.Lease) {
			l.IPv4, l.Pool = netip.MustParsePrefix("10.77.7.0/24"), netip.MustParsePrefix("10.77.0.0/16")
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			within := time.Hour
			if c.orders.Network == nil {
				within = time.Millisecond
			}
			e := inProcess(t, within)
			e.awaitMode(t, wire.NetworkOverlay, "")
			if err := e.Apply(t.Context(), c.orders); err != nil {
				t.Fatal(err)
			}
			e.awaitMode(t, wire.NetworkLoopback, c.why)
			for seq := uint64(0); ; {
				s, err := e.State(t.Context(), seq, 10*time.Second)
				if err != nil || seq == s.Seq {
					t.Fatalf("it does not run: %v", err)
				}
				if st, ok := e.board.Get(web0); ok && st.Phase == wire.PhaseRunning {
					if len(st.Addrs) > 0 || strings.HasPrefix(fmt.Sprint(st.Ports), "map[http:80]") {
						t.Errorf("%+v", st)
					}
					break
				}
				seq = s.Seq
			}
			if n := devices(t); n != 0 || strings.Contains(nft(t, "list tables"), "verge") {
				t.Errorf("left: %d devices, tables %s", n, nft(t, "list tables"))
			}
		})
	}
}

// What a worker in the network does to a machine and to programs: settings are put
// back, rules of others that come later are told of, who listens on the loopback
// alone learns it, and one family of addresses is enough.
func TestNetworkAndMachine(t *testing.T) {
	if overlaytest.Again(t) {
		return
	}
	const forwards = "/proc/sys/net/ipv4/ip_forward"
	forwarding := func() string {
		t.Helper()
		b, err := os.ReadFile(forwards)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	if err := os.WriteFile(forwards, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A service that libraries ask for names, such as nscd.
	if err := errors.Join(unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"),
		os.Mkdir("/run/nscd", 0o755)); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", "/run/nscd/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()

	o := networked(t)
	o.Orders[0].Spec.Env = map[string]string{beServer: "loopback"}
	o.Orders[1].Spec.Env = map[string]string{beServer: "four"}
	b := newBenchWith(t, wire.NetworkAuto)
	b.put(o)
	b.until("the one with IPv4 is ready", func() bool { return b.status(db0).Ready })
	b.until("the other learns why not", func() bool {
		s := b.status(web0)
		return !s.Ready && strings.Contains(s.Why, "it listens on the loopback alone")
	})
	db := b.status(db0)
	if info, err := os.Stat("/proc/" + itoa(db.PID) + "/root/run/nscd/socket"); err != nil ||
		info.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("an instance sees the machine's service for names: %v, %v", info, err)
	}
	if forwarding() != "1" {
		t.Error("the machine does not forward")
	}

	nft(t, "add table ip filter")
	nft(t, "add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }")
	b.until("rules of others are told of", func() bool {
		return strings.Contains(strings.Join(b.info().Problems, "\n"), "iptables -I FORWARD -i vg+ -j ACCEPT")
	})
	nft(t, `insert rule ip filter FORWARD iifname "vg*" accept`)
	nft(t, `insert rule ip filter FORWARD oifname "vg*" accept`)
	b.until("they are not in the way any more", func() bool { return len(b.info().Problems) == 0 })

	// Somebody else forwards by now: it goes on.
	b.stop()
	if forwarding() != "1" {
		t.Error("it does not forward any more for others")
	}
	nft(t, "delete table ip filter")
	if err := os.WriteFile(forwards, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.until("it is ready again", func() bool { return b.status(db0).Ready })
	b.kill() // its successor knows what it has changed
	b.start()
	b.until("it is found again", func() bool { return b.status(db0).Ready })
	b.stop()
	if forwarding() != "0" {
		t.Error("the machine goes on forwarding")
	}
}

// Programs in the service network find names of the world outside by the machine's own
// resolver, which may listen on its loopback alone, and reach what they find as the
// machine itself does.
func TestNetworkAndWorld(t *testing.T) {
	if overlaytest.Again(t) {
		return
	}
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	if err := errors.Join(os.WriteFile(resolv, []byte("nameserver 127.0.0.53\n"), 0o600),
		unix.Mount(resolv, "/etc/resolv.conf", "", unix.MS_BIND, "")); err != nil {
		t.Fatal(err)
	}
	world := nstest.New(t)
	for _, cmd := range []string{
		"link add up0 type veth peer name down0 netns " + world.Name(), "addr add 192.0.2.1/24 dev up0",
		"link set up0 up",
		"-n " + world.Name() + " addr add 192.0.2.7/24 dev down0", "-n " + world.Name() + " link set down0 up",
	} {
		if out, err := exec.Command("ip", strings.Fields(cmd)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", cmd, err, out)
		}
	}
	site := &http.Server{ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_,
				_ = fmt.Fprintln(w, "you are", r.RemoteAddr)
		})}
	ln := world.Listen("tcp", "192.0.2.7:80")
	go func() { _ = site.Serve(ln) }() // ends with ln
	t.Cleanup(func() { _ = site.Close() })
	at, err := net.ListenPacket("udp", "127.0.0.53:53")
	if err != nil {
		t.Fatal(err)
	}
	resolver := &dns.Server{PacketConn: at, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if x := q.Question[0]; x.Name == "shop.example.test." && x.Qtype == dns.TypeA {
			m.Answer = append(m.Answer,
				&dns.A{Hdr: dns.RR_Header{Name: x.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5},
					A: net.IPv4(192, 0, 2, 7)})
		} else if x.Name != "shop.example.test." {
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m) // who asked asks again
	})}
	done := make(chan error, 1)
	go func() { done <- resolver.ActivateAndServe() }()
	t.Cleanup(func() { _, _ = resolver.Shutdown(), <-done })

	b := newBenchWith(t, wire.NetworkAuto)
	o := networked(t)
	b.put(o)
	b.until("it is ready", func() bool { return b.status(web0).Ready })
	b.told(wire.NetworkOverlay, "")
	web := "http://" + netip.AddrPortFrom(b.status(web0).Addrs[0], 80).String() + "/fetch?url="
	for _, to := range []string{"http://shop.example.test/", "http://192.0.2.7/"} {
		if text, err := get(web + url.QueryEscape(to)); err != nil || !strings.HasPrefix(text, "you are 192.0.2.1:") {
			t.Errorf("%s: %q, %v", to, text, err)
		}
	}
	if text, err := get(web + url.QueryEscape("http://nobody.example.test/")); err != nil ||
		!strings.Contains(text, "no such host") {
		t.Errorf("a name that there is not: %q, %v", text, err)
	}
	b.stop()
}
