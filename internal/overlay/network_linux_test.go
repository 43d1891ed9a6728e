package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/overlay/rules"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

func TestMain(m *testing.M) { overlaytest.Main(m) }

// world is a worker's network with some instances.
type world struct {
	t    testing.TB
	opts Options
	n    *Network
	net  *wire.Network

	mu      sync.Mutex
	ready   map[string]bool
	problem map[string]string
	at      map[string]Attachment
}

func lease(t testing.TB) *wire.Network {
	t.Helper()
	b, err := json.Marshal(wire.Lease{
		V: wire.Version, Prefix: netip.MustParsePrefix("fd12:3456:789a::/48"), Number: 7,
		IPv4: netip.MustParsePrefix("10.128.7.0/24"), Pool: netip.MustParsePrefix("10.128.0.0/9"), Services: netip.MustParsePrefix("10.30.0.0/16"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &wire.Network{V: wire.Version, Lease: wire.SignedLease{Body: b}}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, func(*Options) {})
}

func newWorldWith(t testing.TB, change func(*Options)) *world {
	t.Helper()
	overlaytest.Need(t)
	w := &world{t: t, net: lease(t), ready: map[string]bool{}, problem: map[string]string{}, at: map[string]Attachment{}}
	w.opts = Options{
		Dir: t.TempDir(), Worker: "w", Cluster: "c",
		Ready:   func(id string) bool { w.mu.Lock(); defer w.mu.Unlock(); return w.ready[id] },
		Problem: func(about, what string) { w.mu.Lock(); defer w.mu.Unlock(); w.problem[about] = what },
	}
	change(&w.opts)
	w.open()
	t.Cleanup(w.close)
	return w
}

// close ends it, after which nothing is left.
func (w *world) close() {
	w.t.Helper()
	for id := range w.at {
		if err := w.n.Detach(id); err != nil {
			w.t.Error(err)
		}
	}
	if err := w.n.Clear(); err != nil {
		w.t.Error(err)
	}
	w.n.Close()
	w.nothingLeft()
}

func (w *world) open() {
	w.t.Helper()
	n, err := Open(w.opts)
	if err != nil {
		w.t.Fatal(err)
	}
	w.n = n
	n.Start(context.Background())
}

func (w *world) nothingLeft() {
	w.t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Name, "vg") {
			w.t.Errorf("device %s is left", l.Name)
		}
	}
	if out, err := exec.Command("nft", "list", "tables").Output(); err == nil && strings.Contains(string(out), "verge") {
		w.t.Errorf("tables left: %s", out)
	}
	if b, err := os.ReadFile("/proc/self/mounts"); err == nil && strings.Contains(string(b), w.opts.Dir) {
		w.t.Error("a mount is left")
	}
}

func (w *world) attach(id string, app uint32) Attachment {
	w.t.Helper()
	name, _, _ := strings.Cut(id, ".")
	a, err := w.n.Attach(Instance{ID: id, App: name, Namespace: "default", AppNumber: app, Had: w.at[id].Place})
	if err != nil {
		w.t.Fatal(err)
	}
	w.at[id] = a
	w.setReady(id, true)
	return a
}

func (w *world) setReady(id string, ready bool) {
	w.mu.Lock()
	w.ready[id] = ready
	w.mu.Unlock()
}

func (w *world) set(routes ...wire.Route) {
	w.t.Helper()
	if err := w.n.Set(w.net, routes); err != nil {
		w.t.Fatal(err)
	}
}

func routeTo(app string, number uint32, service string, ids ...string) wire.Route {
	r := wire.Route{V: wire.Version, App: app, Service: service, AppNumber: number, Ports: []api.Port{{Protocol: "http"}}}
	for _, id := range ids {
		r.Endpoints = append(r.Endpoints, wire.Endpoint{Instance: id, Cluster: "c", Worker: "w"})
	}
	return r
}

func (w *world) serve(id string, port uint16) {
	w.t.Helper()
	for _, a := range w.at[id].Addrs {
		overlaytest.Serve(w.t, w.at[id].NetNS, netip.AddrPortFrom(a, port), id)
	}
}

func (w *world) ask(from, to string) (string, error) {
	w.t.Helper()
	return overlaytest.Ask(w.t, w.at[from].NetNS, "tcp", netip.MustParseAddrPort(to))
}

// lookup asks the worker's name server from an instance.
func (w *world) lookup(from, name string, kind uint16) *dns.Msg {
	w.t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(name+".default."+strings.SplitN(from, ".", 2)[0]+".default.verge.internal.", kind)
	return w.exchange(from, q)
}

func (w *world) exchange(from string, q *dns.Msg) *dns.Msg {
	w.t.Helper()
	var m *dns.Msg
	err := overlaytest.In(w.t, w.at[from].NetNS, func() error {
		c, err := net.Dial("udp", netip.AddrPortFrom(w.n.space.Host6, 53).String())
		if err != nil {
			return err
		}
		defer c.Close()
		m, _, err = new(dns.Client).ExchangeWithConn(q, &dns.Conn{Conn: c})
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (w *world) addr6(from, name string) netip.Addr {
	w.t.Helper()
	m := w.lookup(from, name, dns.TypeAAAA)
	if len(m.Answer) != 1 {
		w.t.Fatalf("%s: %v", name, m)
	}
	a, _ := netip.AddrFromSlice(m.Answer[0].(*dns.AAAA).AAAA)
	return a
}

func (w *world) service4(app, service string) string {
	w.t.Helper()
	addrs, err := w.n.ServiceAddrs(app, "default", service, []api.Port{{Protocol: "http"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return addrs["http"]
}

func TestNoLease(t *testing.T) {
	w := newWorld(t)
	if _, err := w.n.Attach(Instance{ID: "a.web.0", App: "a", AppNumber: 1}); err != ErrNoLease { //nolint:errorlint // it is that
		t.Errorf("without a lease: %v", err)
	}
}

func TestServices(t *testing.T) {
	w := newWorld(t)
	w.set()
	for _, id := range []string{"shop.web.0", "shop.db.0", "shop.db.1"} {
		w.attach(id, 1)
		w.serve(id, 80)
	}
	w.attach("other.spy.0", 2)
	w.serve("other.spy.0", 80)
	r := routeTo("shop", 1, "db", "shop.db.0", "shop.db.1")
	w.set(r, routeTo("shop", 1, "web", "shop.web.0"), routeTo("other", 2, "spy", "other.spy.0"))

	by4 := w.service4("shop", "db")
	by6 := netip.AddrPortFrom(w.addr6("shop.web.0", "db"), 80).String()
	for _, at := range []string{by4, by6} {
		got := map[string]int{}
		for range 10 {
			said, err := w.ask("shop.web.0", at)
			if err != nil {
				t.Fatalf("%s: %v", at, err)
			}
			got[said]++
		}
		if got["shop.db.0"] != 5 || got["shop.db.1"] != 5 {
			t.Errorf("%s: %v instead of five each", at, got)
		}
	}

	t.Run("hairpin", func(t *testing.T) {
		w.set(routeTo("shop", 1, "db", "shop.db.0"))
		for _, at := range []string{by4, by6} {
			if said, err := w.ask("shop.db.0", at); said != "shop.db.0" {
				t.Errorf("itself by %s: %q, %v", at, said, err)
			}
		}
		w.set(r)
	})
	t.Run("readiness", func(t *testing.T) {
		w.setReady("shop.db.0", false)
		w.set(r)
		for range 3 {
			if said, _ := w.ask("shop.web.0", by6); said != "shop.db.1" {
				t.Errorf("asked %q", said)
			}
		}
		w.setReady("shop.db.0", true)
		w.set(r)
	})
	t.Run("no endpoint", func(t *testing.T) {
		w.set(routeTo("shop", 1, "db"))
		for _, at := range []string{by4, by6} {
			if _, err := w.ask("shop.web.0", at); err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("%s: %v", at, err)
			}
		}
		w.set(r)
	})
	t.Run("first packet", func(t *testing.T) {
		for _, policy := range []string{"closest", "local"} {
			at := netip.AddrPortFrom(w.n.space.Service(1, "db", policy), 80).String()
			if said, err := w.ask("shop.web.0", at); !strings.HasPrefix(said, "shop.db") {
				t.Errorf("%s: %q, %v", policy, said, err)
			}
		}
		at := netip.AddrPortFrom(w.n.space.Service(1, "nothing", "closest"), 80)
		begin := time.Now()
		if _, err := w.ask("shop.web.0", at.String()); err == nil || time.Since(begin) > 3*time.Second {
			t.Errorf("an address of nobody: %v after %s", err, time.Since(begin))
		}
	})
	t.Run("machine", func(t *testing.T) {
		for _, at := range []string{by4, by6} {
			if said, err := overlaytest.Ask(t, "", "tcp", netip.MustParseAddrPort(at)); !strings.HasPrefix(said, "shop.db") {
				t.Errorf("%s: %q, %v", at, said, err)
			}
		}
		first := netip.AddrPortFrom(w.n.space.Service(1, "db", "random"), 80)
		if said, err := overlaytest.Ask(t, "", "tcp", first); !strings.HasPrefix(said, "shop.db") {
			t.Errorf("its first packet: %q, %v", said, err)
		}
	})
	t.Run("names", func(t *testing.T) {
		if a := w.addr6("shop.web.0", "0.instance.db"); a != w.at["shop.db.0"].Addrs[0] {
			t.Errorf("an instance by name: %s", a)
		}
		if m := w.lookup("shop.web.0", "nothing", dns.TypeAAAA); m.Rcode != dns.RcodeNameError {
			t.Errorf("unknown name: %v", m)
		}
		at := netip.AddrPortFrom(w.addr6("shop.web.0", "proximity.db"), 80).String()
		if said, err := w.ask("shop.web.0", at); !strings.HasPrefix(said, "shop.db") {
			t.Errorf("by a policy: %q, %v", said, err)
		}
	})
	t.Run("exported", func(t *testing.T) {
		open := r
		open.Export = true
		w.set(open, routeTo("other", 2, "spy", "other.spy.0"))
		for _, at := range []string{by4, by6, netip.AddrPortFrom(w.at["shop.db.0"].Addrs[0], 80).String(), netip.AddrPortFrom(w.at["shop.db.1"].Addrs[1], 80).String()} {
			if said, err := w.ask("other.spy.0", at); !strings.HasPrefix(said, "shop.db") {
				t.Errorf("another application at %s: %q, %v", at, said, err)
			}
		}
		if !overlaytest.Refused(t, w.at["other.spy.0"].NetNS, "tcp", netip.AddrPortFrom(w.at["shop.web.0"].Addrs[0], 80)) {
			t.Error("a service that is not exported is reached")
		}
		w.set(r)
	})
	t.Run("address of choice", func(t *testing.T) {
		fixed := r
		fixed.ServiceIP = netip.MustParseAddr("10.30.7.7")
		w.set(fixed)
		if got := w.service4("shop", "db"); got != "10.30.7.7:80" {
			t.Errorf("it has %s", got)
		}
		if said, err := w.ask("shop.web.0", "10.30.7.7:80"); !strings.HasPrefix(said, "shop.db") {
			t.Errorf("%q, %v", said, err)
		}
		taken := routeTo("other", 2, "spy", "other.spy.0")
		taken.ServiceIP = fixed.ServiceIP
		w.set(fixed, taken)
		w.mu.Lock()
		what := w.problem["address of other.spy"]
		w.mu.Unlock()
		if got := w.service4("other", "spy"); got == "10.30.7.7:80" || !strings.Contains(what, "is that of round-robin.db.shop") {
			t.Errorf("two services want one address: the other has %s, and it says %q", got, what)
		}
		w.set(fixed, routeTo("other", 2, "spy", "other.spy.0"))
		w.mu.Lock()
		what = w.problem["address of other.spy"]
		w.mu.Unlock()
		if what != "" {
			t.Errorf("still: %s", what)
		}
		by4 = w.service4("shop", "db")
	})
	t.Run("isolation", func(t *testing.T) {
		was, err := w.n.Stats()
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{by4, by6, netip.AddrPortFrom(w.at["shop.db.0"].Addrs[0], 80).String(), netip.AddrPortFrom(w.at["shop.db.0"].Addrs[1], 80).String()} {
			if !overlaytest.Refused(t, w.at["other.spy.0"].NetNS, "tcp", netip.MustParseAddrPort(at)) {
				t.Errorf("another application reaches %s", at)
			}
		}
		ln, err := net.Listen("tcp", "[::]:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		port := uint16(ln.Addr().(*net.TCPAddr).Port)
		for _, a := range []netip.Addr{w.n.space.Host6, w.n.space.Host4} {
			if !overlaytest.Refused(t, w.at["other.spy.0"].NetNS, "tcp", netip.AddrPortFrom(a, port)) {
				t.Errorf("a port of the machine is reached at %s", a)
			}
		}
		victim := w.at["shop.web.0"].Addrs[0]
		if err := overlaytest.In(t, w.at["other.spy.0"].NetNS, func() error {
			if out, err := exec.Command("ip", "-6", "addr", "add", victim.String()+"/128", "dev", "eth0", "nodad").CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(victim, 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(w.at["shop.db.0"].Addrs[0], 80)))
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := c.Write([]byte("?")); err != nil {
				return err
			}
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := c.Read(make([]byte, 8)); err == nil {
				t.Error("a spoofed source got an answer")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		is, err := w.n.Stats()
		if err != nil {
			t.Fatal(err)
		}
		for _, reason := range []string{"isolated", "guarded", "spoofed"} {
			if is.Dropped[reason] == was.Dropped[reason] {
				t.Errorf("not counted: %s (%v)", reason, is.Dropped)
			}
		}
		if is.First == 0 || is.Names.Asked == 0 || is.Names.Answers["NOERROR"] == 0 || is.Instances != len(w.at) || is.Services == 0 {
			t.Errorf("figures: %+v", is)
		}
	})
}

// What is connected stays so over changes, a restart of the engine, and somebody
// who takes the ruleset away.
func TestConnectionsStay(t *testing.T) {
	w := newWorld(t)
	w.set()
	w.attach("shop.web.0", 1)
	w.attach("shop.db.0", 1)
	r := routeTo("shop", 1, "db", "shop.db.0")
	w.set(r)
	at := netip.MustParseAddrPort(w.service4("shop", "db"))
	var ln net.Listener
	if err := overlaytest.In(t, w.at["shop.db.0"].NetNS, func() (err error) {
		ln, err = net.Listen("tcp", fmt.Sprintf("%s:80", w.at["shop.db.0"].Addrs[1]))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var c net.Conn
	if err := overlaytest.In(t, w.at["shop.web.0"].NetNS, func() (err error) {
		c, err = net.Dial("tcp", at.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	alive := func(when string) {
		t.Helper()
		for _, x := range [][2]net.Conn{{c, s}, {s, c}} {
			if _, err := x[0].Write([]byte("x")); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			_ = x[1].SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := io.ReadFull(x[1], make([]byte, 1)); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	alive("at first")
	w.attach("shop.db.1", 1)
	w.set(routeTo("shop", 1, "db", "shop.db.1")) // the old one drains
	alive("after its endpoint left the route")
	w.n.table.Forget()
	w.set(r)
	alive("after the ruleset was written anew")

	w.n.Close()
	alive("without an engine")
	w.open()
	if err := w.n.Set(w.net, []wire.Route{r}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"shop.web.0", "shop.db.0"} {
		if !w.n.Keep(Instance{ID: id, App: "shop", Namespace: "default", AppNumber: 1, Had: w.at[id].Place}) {
			t.Errorf("%s is not known again", id)
		}
	}
	if err := w.n.Settle(); err != nil {
		t.Fatal(err)
	}
	alive("after a restart")
	had := w.at["shop.web.0"]
	if got := w.attach("shop.web.0", 1); got.NetNS != had.NetNS || got.Place != had.Place || got.Addrs[0] != had.Addrs[0] {
		t.Errorf("had %+v, and now %+v", had, got)
	}
	if _, err := os.Stat(w.at["shop.db.1"].NetNS); !os.IsNotExist(err) {
		t.Errorf("what nobody named is left: %v", err)
	}
	delete(w.at, "shop.db.1")
	if now := netip.MustParseAddrPort(w.service4("shop", "db")); now != at {
		t.Errorf("the service had %s and has %s", at, now)
	}
	alive("after it was attached again")
}

func TestFlushedRulesetComesBack(t *testing.T) {
	w := newWorld(t)
	w.set()
	w.attach("shop.web.0", 1)
	w.attach("shop.db.0", 1)
	w.serve("shop.db.0", 80)
	w.set(routeTo("shop", 1, "db", "shop.db.0"))
	at := netip.MustParseAddrPort(w.service4("shop", "db"))
	if out, err := exec.Command("nft", "flush", "ruleset").CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: nft: %v %s", err, out)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		out, _ := exec.Command("nft", "list", "tables").Output()
		if strings.Contains(string(out), "verge") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the ruleset does not come back")
		}
	}
	if said, err := overlaytest.Ask(t, w.at["shop.web.0"].NetNS, "tcp", at); said != "shop.db.0" {
		t.Errorf("%q, %v", said, err)
	}
}

// What is heard of the ruleset after it was removed does not bring it back.
func TestClearedRulesetStaysAway(t *testing.T) {
	w := newWorld(t)
	w.set()
	if err := w.n.Clear(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // when the second is taken the first has been dealt with
		w.n.tampered()
		for len(w.n.change) > 0 {
			runtime.Gosched()
		}
	}
	if out, err := exec.Command("nft", "list", "tables").CombinedOutput(); err != nil || strings.Contains(string(out), "verge") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOneWorkerInAMachine(t *testing.T) {
	w := newWorld(t)
	o := w.opts
	o.Dir = t.TempDir()
	if n, err := Open(o); err == nil {
		n.Close()
		t.Error("two workers have the service network")
	} else if !strings.Contains(err.Error(), "worker c/w, in "+w.opts.Dir) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, spacesDir)); err == nil {
		t.Error("something is left of the attempt")
	}
}

// What is not in the service network is reached through the router.
func TestThrough(t *testing.T) {
	w := newWorld(t)
	router := make(chan string, 20)
	w.n.opts.Through = func(ln net.Listener, app, service, port string) {
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				router <- app + "." + service + "/" + port
				_, _ = io.WriteString(c, "router")
				_ = c.Close()
			}
		}()
	}
	w.set()
	w.attach("shop.web.0", 1)
	w.attach("shop.db.0", 1)
	w.serve("shop.db.0", 80)
	r := routeTo("shop", 1, "db", "shop.db.0")
	r.Endpoints = append(r.Endpoints, wire.Endpoint{Instance: "shop.db.1", Cluster: "c", Worker: "far", Address: "192.0.2.1:7000"})
	w.set(r)
	for _, at := range []string{w.service4("shop", "db"), netip.AddrPortFrom(w.addr6("shop.web.0", "db"), 80).String()} {
		got := map[string]int{}
		for range 8 {
			said, err := w.ask("shop.web.0", at)
			if err != nil {
				t.Fatal(err)
			}
			got[said]++
		}
		if got["router"] != 4 || got["shop.db.0"] != 4 {
			t.Errorf("%s: %v", at, got)
		}
	}
	if to := <-router; to != "shop.db/http" {
		t.Errorf("the router is asked for %s", to)
	}
	// All of what is routed by request goes there.
	r.Requests.Needed = true
	w.set(r)
	for _, at := range []string{w.service4("shop", "db"), netip.AddrPortFrom(w.addr6("shop.web.0", "db"), 80).String()} {
		for range 4 {
			if said, err := w.ask("shop.web.0", at); err != nil || said != "router" {
				t.Errorf("%s: %q, %v", at, said, err)
			}
		}
	}
}

// Connections to an instance of a dead worker end at once; those to one that drains,
// and to others, go on.
func TestDeadEndpointsAreForgotten(t *testing.T) {
	w := newWorld(t)
	w.n.opts.Reached = func(*wire.Endpoint) bool { return true }
	w.set()
	w.attach("shop.web.0", 1)
	w.attach("shop.db.0", 1)
	// Instances of another worker: here they are local ones that routes call remote.
	remote := func(suspect bool, ids ...string) wire.Route {
		r := routeTo("shop", 1, "db")
		for _, id := range ids {
			r.Endpoints = append(r.Endpoints, wire.Endpoint{Instance: "far" + id, Cluster: "c", Worker: "far", Address: "192.0.2.1:1", Addrs: w.at[id].Addrs, Suspect: suspect})
		}
		return r
	}
	for _, c := range []struct {
		name    string
		suspect bool
		ends    bool
	}{{"dead", true, true}, {"drains", false, false}} {
		for family, host := range map[string]func() string{
			"ipv4": func() string { return w.service4("shop", "db") },
			"ipv6": func() string {
				return netip.AddrPortFrom(w.n.space.Service(1, "db", api.PolicyRoundRobin), 80).String()
			},
		} {
			w.set(remote(false, "shop.db.0"))
			at := w.at["shop.db.0"]
			var ln net.Listener
			if err := overlaytest.In(t, at.NetNS, func() (err error) {
				ln, err = net.Listen("tcp", ":80")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			var client net.Conn
			if err := overlaytest.In(t, w.at["shop.web.0"].NetNS, func() (err error) {
				client, err = net.Dial("tcp", host())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			server, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			w.set(remote(c.suspect, "shop.db.0"))
			w.set(remote(false))
			timeout := 5 * time.Second
			if !c.ends {
				timeout = 100 * time.Millisecond
			}
			_ = client.SetReadDeadline(time.Now().Add(timeout))
			_, err = client.Read(make([]byte, 1))
			var late net.Error
			if ended := !(errors.As(err, &late) && late.Timeout()); ended != c.ends {
				t.Errorf("%s, %s: ended %v (%v)", c.name, family, ended, err)
			}
			if !c.ends {
				if _, err := server.Write([]byte("x")); err != nil {
					t.Error(err)
				}
				_ = client.SetReadDeadline(time.Now().Add(5 * time.Second))
				if _, err := client.Read(make([]byte, 1)); err != nil {
					t.Errorf("%s, %s: it does not go on: %v", c.name, family, err)
				}
			}
			_, _, _ = client.Close(), server.Close(), ln.Close()
		}
	}
}

// distances that a test sets.
type distances struct {
	mu      sync.Mutex
	version uint64
	rtt     map[string]time.Duration // by worker
	wanted  map[string]int           // by service
}

func (d *distances) Want(service string, workers []Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted[service] = len(workers)
}

func (d *distances) Distance(_, worker string) (time.Duration, route.Source, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rtt, ok := d.rtt[worker]; ok {
		return rtt, route.Measured, time.Time{}
	}
	return 0, route.Unknown, time.Time{}
}

func (d *distances) Version() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version
}

func (d *distances) are(rtt map[string]time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rtt = rtt
	d.version++
}

// The rules of the policy weighted go by what the workers have, among the replicas
// that share it.
func TestRulesFollowTheProcessors(t *testing.T) {
	w := newWorld(t)
	w.n.opts.Reached = func(*wire.Endpoint) bool { return true }
	w.set()
	w.attach("shop.web.0", 1)
	r := wire.Route{V: wire.Version, App: "shop", Service: "db", AppNumber: 1, Policy: api.PolicyWeighted, Ports: []api.Port{{Protocol: "http"}}}
	for i, of := range []struct {
		worker string
		cpu    api.CPU
	}{{"big", 6000}, {"small", 2000}, {"small", 2000}} {
		r.Endpoints = append(r.Endpoints, wire.Endpoint{
			Instance: fmt.Sprintf("shop.db.%d", i), Cluster: "c", Worker: of.worker, CPU: of.cpu, Address: of.worker + ":8474",
			Addrs: []netip.Addr{netip.MustParseAddr(fmt.Sprintf("fd12:3456:789a:0:%d:0:100:%d", 8+len(of.worker), i+1))},
		})
	}
	w.set(r)
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	for _, svc := range w.n.served {
		for _, p := range svc.Ports {
			to := slices.SortedFunc(slices.Values(p.To6), func(a, b rules.Backend) int { return a.To.Compare(b.To) })
			if len(to) != 3 || to[1].Weight != to[2].Weight || math.Abs(float64(to[0].Weight)/float64(to[1].Weight)-6) > 0.01 {
				t.Errorf("%+v, want 6:1:1", to)
			}
		}
	}
}

// The rules go by distances, and by others when these have changed.
func TestRulesFollowTheDistances(t *testing.T) {
	w := newWorld(t)
	d := &distances{wanted: map[string]int{}}
	w.n.opts.Distances = d
	w.n.opts.Reached = func(*wire.Endpoint) bool { return true }
	w.set()
	w.attach("shop.web.0", 1)
	r := wire.Route{V: wire.Version, App: "shop", Service: "db", AppNumber: 1, Policy: api.PolicyClosest, Ports: []api.Port{{Protocol: "http"}}}
	at := map[string]netip.Addr{}
	for i, worker := range []string{"near", "far"} {
		at[worker] = netip.MustParseAddr(fmt.Sprintf("fd12:3456:789a:0:%d:0:100:1", 8+i))
		r.Endpoints = append(r.Endpoints, wire.Endpoint{
			Instance: fmt.Sprintf("shop.db.%d", i), Cluster: "c", Worker: worker, Address: worker + ":8474", Addrs: []netip.Addr{at[worker]},
		})
	}
	goesTo := func() (out []netip.Addr) {
		w.n.mu.Lock()
		defer w.n.mu.Unlock()
		for _, svc := range w.n.served {
			for _, p := range svc.Ports {
				for _, b := range p.To6 {
					out = append(out, b.To.Addr())
				}
			}
		}
		return out
	}
	w.set(r)
	if to := goesTo(); len(to) != 2 || d.wanted["shop.db by closest"] != 2 && len(d.wanted) != 1 {
		t.Fatalf("nothing is known: %v, wanted %v", to, d.wanted)
	}
	for _, near := range []string{"near", "far", "near"} {
		rtt := map[string]time.Duration{"near": 90 * time.Millisecond, "far": 90 * time.Millisecond}
		rtt[near] = 3 * time.Millisecond
		d.are(rtt)
		for {
			if to := goesTo(); len(to) == 1 && to[0] == at[near] {
				break
			}
			select {
			case <-t.Context().Done():
				t.Fatalf("it goes to %v, the nearest is %s", goesTo(), at[near])
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	w.set()
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	if len(w.n.looks.want) != 0 || w.n.looks.timer.Stop() {
		t.Error("nothing goes by distances any more, and it looks at them all the same")
	}
}
