package peer_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/overlay/addr"
	"github.com/verge-edge/verge/internal/overlay/nstest"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/wire"
)

// caller makes requests from an instance.
type caller struct {
	inside func(func() error) error
	open   map[string]net.Conn
}

func newCaller(inside func(func() error) error) *caller {
	return &caller{inside, map[string]net.Conn{}}
}

// do answers "cpu" with the process's in ns, and "call TO message|connection N" with
// how long that took.
func (c *caller) do(f []string) string {
	if f[0] == "cpu" {
		return strconv.FormatInt(int64(overlaytest.CPU()), 10)
	}
	n, _ := strconv.Atoi(f[3])
	began := time.Now()
	if err := c.inside(func() error { began = time.Now(); return c.call(f[1], f[2] == "connection", n) }); err != nil {
		return err.Error()
	}
	return strconv.FormatInt(int64(time.Since(began)), 10)
}

func (c *caller) call(to string, each bool, n int) error {
	for range n {
		conn := c.open[to]
		if conn == nil || each {
			var err error
			if conn, err = net.DialTimeout("tcp", to, 10*time.Second); err != nil {
				return err
			}
			if !each {
				c.open[to] = conn
			}
		}
		var m [64]byte
		if _, err := conn.Write(m[:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, m[:]); err != nil {
			return err
		}
		if each {
			_ = conn.(*net.TCPConn).SetLinger(0) // no port is used up
			_ = conn.Close()
		}
	}
	return nil
}

// plainWorker has WireGuard and a namespace for one instance, and nothing else.
func plainWorker() error {
	in := bufio.NewScanner(os.Stdin)
	s, log, err := begin(in)
	if err != nil {
		return err
	}
	key, err := wg.EnsureKey(filepath.Join(s.Dir, "wg.key"))
	if err != nil {
		return err
	}
	dev, err := wg.Open(wg.Options{Key: key, Port: wg.DefaultPort, Log: log})
	if err != nil {
		return err
	}
	defer func() { _ = dev.Destroy() }()
	inside := insideOf(s.NetNS)
	if err := sink(inside, servicePort); err != nil {
		return err
	}
	calls := newCaller(inside)
	fmt.Println("ready")
	for in.Scan() {
		switch f := strings.Fields(in.Text()); f[0] {
		case "key":
			fmt.Println(dev.Public())
		case "peer": // peer KEY ENDPOINT NETWORK
			k, err := wg.ParseKey(f[1])
			if err == nil {
				err = dev.Set(wg.Peer{Key: k, Endpoint: netip.MustParseAddrPort(f[2]),
					Allowed: []netip.Prefix{netip.MustParsePrefix(f[3])}})
			}
			if err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Println("ok")
		default:
			fmt.Println(calls.do(f))
		}
	}
	return nil
}

// plain is such a worker, with an instance at an address.
func (w *world) plain(name string, h *nstest.Host, own, gateway string) *node {
	w.t.Helper()
	inst := nstest.New(w.t)
	h.Run("ip", "link", "add", "inst", "type", "veth", "peer", "name", "eth0", "netns", inst.Name())
	h.Run("ip", "addr", "add", gateway+"/80", "dev", "inst", "nodad")
	h.Run("ip", "link", "set", "inst", "up")
	h.Run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
	inst.Run("ip", "addr", "add", own+"/80", "dev", "eth0", "nodad")
	inst.Run("ip", "link", "set", "eth0", "up")
	inst.Run("ip", "route", "add", "default", "via", gateway)
	n := &node{t: w.t, name: name, kind: "plain", host: h, setup: setup{Dir: w.t.TempDir(), NetNS: inst.Path()}}
	n.start()
	return n
}

// BenchmarkOtherWorker compares a replica on another worker by its service's address
// with the same through plain veths and WireGuard alone, which is in the processes
// of both.
func BenchmarkOtherWorker(b *testing.B) {
	w := newWorld(b)
	machine := func() (*nstest.Host, string) { return w.machine() }
	ha, ipA := machine()
	hb, ipB := machine()
	hc, ipC := machine()
	hd, ipD := machine()
	x, y := w.network("a", ha), w.network("b", hb)
	addrX, addrY := x.say("addr"), y.say("addr")
	x.say("route b " + ipB + ":" + dataPort + " " + addrY)
	y.say("route a " + ipA + ":" + dataPort + " " + addrX)
	x.awaitPath(y, wire.PathDirect)
	y.awaitPath(x, wire.PathDirect)
	space, err := addr.Of(&wire.Lease{V: 1, Prefix: netip.MustParsePrefix("fd12:3456:789a::/48"), Number: 1})
	if err != nil {
		b.Fatal(err)
	}
	service := netip.AddrPortFrom(space.Service(testApp, "web", "round-robin"), servicePort).String()

	p, q := w.plain("c", hc, "fd00:c::2", "fd00:c::1"), w.plain("d", hd, "fd00:d::2", "fd00:d::1")
	for _, end := range []struct {
		n           *node
		key, at, is string
	}{{p, q.say("key"), ipD, "fd00:d::/80"}, {q, p.say("key"), ipC, "fd00:c::/80"}} {
		if said := end.n.say(fmt.Sprintf("peer %s %s:%d %s", end.key, end.at, wg.DefaultPort, end.is)); said != "ok" {
			b.Fatal(said)
		}
	}
	plain := netip.AddrPortFrom(netip.MustParseAddr("fd00:d::2"), servicePort).String()
	number := func(n *node, line string) time.Duration {
		said := n.say(line)
		v, err := strconv.ParseInt(said, 10, 64)
		if err != nil {
			b.Fatalf("%s: %s", line, said)
		}
		return time.Duration(v)
	}
	for _, c := range []struct {
		mode string
		n    int
	}{{"message", 100}, {"connection", 40}} {
		slice := func(from, to *node, at string) func() overlaytest.Cost {
			return func() overlaytest.Cost {
				before := number(from, "cpu") + number(to, "cpu")
				took := number(from, fmt.Sprintf("call %s %s %d", at, c.mode, c.n))
				return overlaytest.Cost{Took: took, CPU: number(from, "cpu") + number(to, "cpu") - before}
			}
		}
		b.Run("service/"+c.mode, func(b *testing.B) {
			overlaytest.Compare(b, slice(p, q, plain), slice(x, y, service))
		})
		b.Run("own/"+c.mode, func(b *testing.B) {
			overlaytest.Compare(b, slice(p, q, plain),
				slice(x, y, netip.AddrPortFrom(netip.MustParseAddr(addrY), servicePort).String()))
		})
	}
}
