package wg_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/overlay/nstest"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/vishvananda/netlink"
)

// end is one worker with a device on a host of its own.
type end struct {
	*nstest.Host
	dev  *wg.Device
	addr netip.Addr // in the network that the devices make
	port uint16
}

func newEnd(t testing.TB, n int) *end {
	t.Helper()
	e := &end{Host: nstest.New(t), addr: netip.MustParseAddr(fmt.Sprintf("fd00::%d:0:0:1", n))}
	key, err := wg.EnsureKey(filepath.Join(t.TempDir(), "wireguard.key"))
	if err != nil {
		t.Fatal(err)
	}
	e.open(t, key)
	return e
}

func (e *end) open(t testing.TB, key wg.Private) {
	t.Helper()
	var err error
	e.Do(func() {
		if e.dev, err = wg.Open(wg.Options{Key: key}); err == nil {
			e.port, err = e.dev.Port()
		}
	})
	if errors.Is(err, wg.ErrUnsupported) {
		overlaytest.Without(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Do(func() { _ = e.dev.Destroy() }) })
	e.Run("ip", "addr", "add", e.addr.String()+"/128", "dev", e.dev.Name())
}

// peer of e that reaches the other at an address.
func (e *end) peer(t testing.TB, other *end, at string) {
	t.Helper()
	p := wg.Peer{Key: other.dev.Public(), Allowed: []netip.Prefix{netip.PrefixFrom(other.addr, 80).Masked()}}
	if at != "" {
		p.Endpoint = netip.AddrPortFrom(netip.MustParseAddr(at), other.port)
	}
	var err error
	e.Do(func() { err = e.dev.Set(p) })
	if err != nil {
		t.Fatal(err)
	}
}

func pair(t testing.TB) (a, b *end) {
	t.Helper()
	nstest.Need(t)
	a, b = newEnd(t, 1), newEnd(t, 2)
	nstest.Link(a.Host, "e0", "192.0.2.1/24", b.Host, "e0", "192.0.2.2/24")
	return a, b
}

// talk sends n bytes over TCP from a to b's address in the network.
func talk(t testing.TB, a *end, b *end, n int64) {
	t.Helper()
	ln := b.Listen("tcp", netip.AddrPortFrom(b.addr, 0).String())
	got := make(chan int64, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			got <- -1
			return
		}
		m, _ := io.Copy(io.Discard, c)
		got <- m
	}()
	var c net.Conn
	var err error
	a.Do(func() { c, err = net.DialTimeout("tcp", ln.Addr().String(), 20*time.Second) })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(c, zero{}, n); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if m := <-got; m != n {
		t.Fatalf("%d of %d bytes arrived", m, n)
	}
}

type zero struct{}

func (zero) Read(p []byte) (int, error) { return len(p), nil }

func TestDevicesCarryTraffic(t *testing.T) {
	a, b := pair(t)
	a.peer(t, b, "192.0.2.2")
	b.peer(t, a, "") // learns the endpoint from the handshake
	talk(t, a, b, 8<<20)
	for _, e := range []struct{ me, other *end }{{a, b}, {b, a}} {
		peers, err := e.me.dev.Peers()
		if err != nil {
			t.Fatal(err)
		}
		s := peers[e.other.dev.Public()]
		if s.Handshake.IsZero() || s.Rx == 0 || s.Tx == 0 || s.Endpoint.Port() != e.other.port {
			t.Errorf("status of the peer: %+v", s)
		}
	}
}

func TestRoutesComeAndGoWithPeers(t *testing.T) {
	a, b := pair(t)
	a.peer(t, b, "192.0.2.2")
	to := net.IP(b.addr.AsSlice())
	out := func() int {
		var routes []netlink.Route
		a.Do(func() { routes, _ = netlink.RouteGet(to) })
		if len(routes) == 0 {
			return 0
		}
		return routes[0].LinkIndex
	}
	if got := out(); got != a.dev.Index() {
		t.Fatalf("a peer's addresses leave through device %d, want %d", got, a.dev.Index())
	}
	var err error
	a.Do(func() { err = errors.Join(a.dev.Remove(b.dev.Public()), a.dev.Remove(b.dev.Public())) })
	if err != nil {
		t.Fatal(err)
	}
	if got := out(); got == a.dev.Index() {
		t.Fatal("the route outlives the peer")
	}
	peers, err := a.dev.Peers()
	if err != nil || len(peers) != 0 {
		t.Fatalf("peers: %v, %v", peers, err)
	}
}

func TestNudgeMakesASession(t *testing.T) {
	a, b := pair(t)
	a.peer(t, b, "192.0.2.2")
	b.peer(t, a, "")
	var err error
	a.Do(func() { err = a.dev.Nudge(b.dev.Public()) })
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		peers, err := a.dev.Peers()
		if err != nil {
			t.Fatal(err)
		}
		if !peers[b.dev.Public()].Handshake.IsZero() {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("no handshake")
		}
	}
}

// What leaves is no more than the rate, with all that WireGuard adds.
func TestShapedDeviceKeepsItsRate(t *testing.T) {
	a, b := pair(t)
	a.peer(t, b, "192.0.2.2")
	b.peer(t, a, "")
	talk(t, a, b, 1) // a session
	const rate, size = 20_000_000, 1 << 20
	sent := func() int64 {
		n, err := strconv.ParseInt(strings.TrimSpace(a.Run("cat", "/sys/class/net/e0/statistics/tx_bytes")), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var err error
	a.Do(func() { err = a.dev.Shape(rate) })
	if err != nil {
		t.Fatal(err)
	}
	if q := a.Run("tc", "qdisc", "show", "dev", a.dev.Name()); !strings.Contains(q, "tbf") ||
		!strings.Contains(q, "overhead 80") {
		t.Errorf("queues of the device:\n%s", q)
	}
	waits := func() string {
		return strings.TrimSpace(a.Run("cat", "/sys/class/net/"+a.dev.Name()+"/tx_queue_len"))
	}
	if got := waits(); a.dev.Mode() == wg.ModeUser && got != "55" { // 33 ms
		t.Errorf("%s packets may wait behind the queue", got)
	}
	before, began := sent(), time.Now()
	talk(t, a, b, size)
	if bits, took := 8*(sent()-before), time.Since(began); float64(bits) > rate*took.Seconds()*1.02+8*100_000 {
		t.Errorf("%d bits left in %v, at a rate of %d", bits, took, rate)
	}
	a.Do(func() { err = errors.Join(a.dev.Shape(0), a.dev.Shape(0)) })
	if got := waits(); err != nil || a.dev.Mode() == wg.ModeUser && got != "500" {
		t.Fatal(got, err)
	}
}

func TestKeyIsMadeOnceAndKeptPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wireguard.key")
	a, err := wg.EnsureKey(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := wg.EnsureKey(path)
	if err != nil || a.Public() != b.Public() {
		t.Fatalf("the key changed: %v", err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", fi.Mode(), err)
	}
	if got, err := wg.ParseKey(a.Public().String()); err != nil || got != a.Public() {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := wg.EnsureKey(path); err == nil {
		t.Fatal("a damaged key was replaced")
	}
}

// BenchmarkPath is what the device itself costs: bytes over TCP through two of
// them and a cable, beside the same through the cable alone.
func BenchmarkPath(b *testing.B) {
	x, y := pair(b)
	x.peer(b, y, "192.0.2.2")
	y.peer(b, x, "")
	b.Run("overlay", func(b *testing.B) {
		b.SetBytes(1 << 20)
		talk(b, x, y, int64(b.N)<<20)
	})
	b.Run("cable", func(b *testing.B) {
		x := &end{Host: x.Host}
		y := &end{Host: y.Host, addr: netip.MustParseAddr("192.0.2.2")}
		b.SetBytes(1 << 20)
		talk(b, x, y, int64(b.N)<<20)
	})
}

// BenchmarkMemory is what the two devices of a process add to it with 50 peers
// each, at rest and after 256 MB through them; the reach is 45 MB for one.
func BenchmarkMemory(b *testing.B) {
	for range b.N {
		before := overlaytest.Resident(b)
		x, y := pair(b)
		for i := range 49 {
			k, err := wg.EnsureKey(filepath.Join(b.TempDir(), fmt.Sprint(i)))
			if err != nil {
				b.Fatal(err)
			}
			for _, e := range []*end{x, y} {
				p := wg.Peer{Key: k.Public(), Endpoint: netip.MustParseAddrPort("192.0.2.9:1"),
					Allowed: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("fd01::%d:0:0:0/80", i+1))}}
				e.Do(func() { err = e.dev.Set(p) })
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		x.peer(b, y, "192.0.2.2")
		y.peer(b, x, "")
		rest := overlaytest.Resident(b)
		talk(b, x, y, 256<<20)
		b.ReportMetric(float64(rest-before)/2/(1<<20), "MB-rest/device")
		b.ReportMetric(float64(overlaytest.Resident(b)-before)/2/(1<<20), "MB-after/device")
	}
}

// A line of 10 Mbit/s with a queue of a second, which data fills, and control beside
// the tunnel on the same line: it waits in the line's queue, unless the tunnel is kept
// below the line. What it may wait is 200 ms; the log has the figures.
func TestControlIsNotDelayedByData(t *testing.T) {
	const line = 10_000_000
	a, b := pair(t)
	a.peer(t, b, "192.0.2.2")
	b.peer(t, a, "")
	talk(t, a, b, 1) // a session
	a.Run("tc", "qdisc", "add", "dev", "e0", "root", "tbf", "rate", "10mbit", "burst", "4kb", "limit",
		strconv.Itoa(line/8))
	control := func() time.Duration {
		t.Helper()
		var pc net.PacketConn
		var c net.Conn
		var err error
		b.Do(func() { pc, err = net.ListenPacket("udp", "192.0.2.2:0") })
		if err == nil {
			a.Do(func() { c, err = net.Dial("udp", pc.LocalAddr().String()) })
		}
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = pc.Close(), c.Close() }()
		go func() {
			var buf [64]byte
			for {
				n, from, err := pc.ReadFrom(buf[:])
				if err != nil {
					return
				}
				_, _ = pc.WriteTo(buf[:n], from)
			}
		}()
		ln := b.Listen("tcp", netip.AddrPortFrom(b.addr, 0).String())
		var sent sync.WaitGroup
		defer sent.Wait()
		for range 8 {
			var data net.Conn
			a.Do(func() { data, err = net.DialTimeout("tcp", ln.Addr().String(), 20*time.Second) })
			if err != nil {
				t.Fatal(err)
			}
			sink, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = data.Close(), sink.Close() }()
			go func() { _, _ = io.Copy(io.Discard, sink) }()
			sent.Go(func() { _, _ = io.Copy(data, zero{}) })
		}
		var took []time.Duration
		for begin := time.Now(); time.Since(begin) < 2*time.Second; {
			asked := time.Now()
			if _, err := c.Write([]byte("control")); err != nil {
				t.Fatal(err)
			}
			if err := c.SetReadDeadline(asked.Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 64)); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(asked))
		}
		slices.Sort(took)
		t.Logf("of %d questions half took %v and the last %v", len(took), took[len(took)/2], took[len(took)-1])
		return took[len(took)/2]
	}
	var err error
	a.Do(func() { err = a.dev.Shape(line / 100 * 95) })
	if err != nil {
		t.Fatal(err)
	}
	shaped := control()
	a.Do(func() { err = a.dev.Shape(0) })
	if err != nil {
		t.Fatal(err)
	}
	plain := control()
	if plain < 4*shaped {
		t.Errorf("half of the questions take %v with the tunnel kept below the line, and %v without", shaped, plain)
	}
}
