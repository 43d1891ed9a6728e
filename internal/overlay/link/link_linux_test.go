package link

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/verge-edge/verge/internal/overlay/overlaytest"
)

func TestMain(m *testing.M) { overlaytest.Main(m) }

func open(t *testing.T, mark string) *Links {
	t.Helper()
	overlaytest.Need(t)
	l, err := Open(Options{Dir: filepath.Join(t.TempDir(), "netns"), Mark: mark})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Clear(); err != nil {
			t.Error(err)
		}
		l.Close()
	})
	if err := l.Forward(true); err != nil {
		t.Fatal(err)
	}
	return l
}

func spec(n uint32) Spec {
	return Spec{
		ID: fmt.Sprintf("app.web.%d", n), Number: n,
		Addr6: netip.MustParseAddr(fmt.Sprintf("fd00:1:2:0:1:0:100:%x", n)),
		Addr4: netip.MustParseAddr(fmt.Sprintf("10.128.1.%d", n+1)),
	}
}

func make1(t *testing.T, l *Links, n uint32) Link {
	t.Helper()
	k, err := l.Make(spec(n))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestInstancesReachEachOther(t *testing.T) {
	l := open(t, "tst")
	a, b := make1(t, l, 1), make1(t, l, 2)
	for _, addr := range []netip.Addr{spec(2).Addr6, spec(2).Addr4} {
		at := netip.AddrPortFrom(addr, 80)
		overlaytest.Serve(t, b.NetNS, at, "b")
		for _, proto := range []string{"tcp", "udp"} {
			for _, from := range []string{a.NetNS, b.NetNS} {
				if said, err := overlaytest.Ask(t, from, proto, at); said != "b" {
					t.Errorf("%s to %s from %s: %q, %v", proto, at, from, said, err)
				}
			}
		}
	}
}

func TestFoundAgain(t *testing.T) {
	l := open(t, "tst")
	first := make1(t, l, 1)
	overlaytest.Serve(t, first.NetNS, netip.AddrPortFrom(spec(1).Addr6, 80), "me")
	again, err := Open(l.opts)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	second := make1(t, again, 1)
	if first.Found || !second.Found || first.Index != second.Index {
		t.Errorf("made %+v, then found %+v", first, second)
	}
	b := make1(t, again, 2)
	if said, err := overlaytest.Ask(t, b.NetNS, "tcp", netip.AddrPortFrom(spec(1).Addr6, 80)); said != "me" {
		t.Errorf("what listened before: %q, %v", said, err)
	}

	// Somebody took its route and its device's address away.
	dev, err := l.host.LinkByName(first.Device)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.host.LinkSetDown(dev); err != nil {
		t.Fatal(err)
	}
	if k := make1(t, again, 1); !k.Found {
		t.Error("a device that was only switched off was made again")
	}
	if said, err := overlaytest.Ask(t, b.NetNS, "tcp", netip.AddrPortFrom(spec(1).Addr6, 80)); said != "me" {
		t.Errorf("after mending: %q, %v", said, err)
	}

	// The device itself is gone.
	if err := l.host.LinkDel(dev); err != nil {
		t.Fatal(err)
	}
	if k := make1(t, again, 1); k.Found {
		t.Error("a device that was gone counts as found")
	}
	if said, err := overlaytest.Ask(t, b.NetNS, "tcp", netip.AddrPortFrom(spec(1).Addr6, 80)); said != "me" {
		t.Errorf("after the device was made again: %q, %v", said, err)
	}
}

func TestFoundByProcess(t *testing.T) {
	l := open(t, "tst")
	first := make1(t, l, 1)
	c := exec.Command("cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := overlaytest.In(t, first.NetNS, c.Start); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = in.Close(), c.Wait() }()
	if err := l.drop("app.web.1"); err != nil { // as if the mounts were gone
		t.Fatal(err)
	}
	s := spec(1)
	s.PID = c.Process.Pid
	k, err := l.Make(s)
	if err != nil || !k.Found || k.Index != first.Index {
		t.Errorf("found %+v, %v", k, err)
	}
	s.PID = os.Getpid() // one that is in the machine's own namespace
	if err := l.drop("app.web.1"); err != nil {
		t.Fatal(err)
	}
	if k, err := l.Make(s); err != nil || k.Found {
		t.Errorf("the machine's own namespace was taken for the instance's: %+v, %v", k, err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	l, other := open(t, "tst"), open(t, "oth")
	for n := range uint32(3) {
		make1(t, l, n+1)
	}
	stranger := make1(t, other, 9)
	if err := l.Remove(spec(1).ID, 1); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(spec(1).ID, 1); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	if err := l.Sweep(map[string]uint32{spec(2).ID: 2}); err != nil {
		t.Fatal(err)
	}
	left := func() (names []string) {
		all, err := l.host.LinkList()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if strings.HasPrefix(d.Attrs().Name, "vg") {
				names = append(names, d.Attrs().Name)
			}
		}
		slices.Sort(names)
		return names
	}
	if got := left(); !slices.Equal(got, []string{stranger.Device, "vgtsti2"}) {
		t.Errorf("left: %v", got)
	}
	if err := l.Clear(); err != nil {
		t.Fatal(err)
	}
	if got := left(); !slices.Equal(got, []string{stranger.Device}) {
		t.Errorf("left: %v", got)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), l.opts.Dir) {
		t.Error("a mount is left")
	}
	routes, err := l.host.RouteList(nil, netlink.FAMILY_V6)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		if r.Dst != nil && r.Dst.String() == spec(2).Addr6.String()+"/128" {
			t.Errorf("route left: %v", r)
		}
	}
}

func TestHost(t *testing.T) {
	l := open(t, "tst")
	name := l.Own("s")
	tun := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: name}, Mode: netlink.TUNTAP_MODE_TUN}
	if err := l.host.LinkAdd(tun); err != nil {
		t.Fatal(err)
	}
	host6, host4 := netip.MustParseAddr("fd00:1:2:0:1::1"), netip.MustParseAddr("10.128.1.1")
	services := []netip.Prefix{netip.MustParsePrefix("fd00:1:2::/80"), netip.MustParsePrefix("10.30.0.0/16"), {}}
	for range 2 { // the second time nothing changes
		if err := l.Host(name, []netip.Addr{host6, host4, {}}, services); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []string{"fd00:1:2::abc", "10.30.1.1"} {
		routes, err := l.host.RouteGet(net.ParseIP(to))
		if err != nil || len(routes) == 0 {
			t.Fatal(routes, err)
		}
		if src := routes[0].Src.String(); src != host6.String() && src != host4.String() {
			t.Errorf("to %s: source %s", to, src)
		}
	}
	k := make1(t, l, 1)
	overlaytest.Serve(t, "", netip.AddrPortFrom(host6, 5300), "host")
	if said, err := overlaytest.Ask(t, k.NetNS, "udp", netip.AddrPortFrom(host6, 5300)); said != "host" {
		t.Errorf("the machine's own address: %q, %v", said, err)
	}
	nets, err := l.Networks()
	if err != nil {
		t.Fatal(err)
	}
	if len(nets) != 0 {
		t.Errorf("own devices count as the machine's networks: %v", nets)
	}
	other := &netlink.Tuntap{LinkAttrs: netlink.LinkAttrs{Name: "lan0"}, Mode: netlink.TUNTAP_MODE_TUN}
	if err := l.host.LinkAdd(other); err != nil {
		t.Fatal(err)
	}
	defer l.host.LinkDel(other)
	a, err := netlink.ParseAddr("10.200.3.4/16")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.host.AddrAdd(other, a); err != nil {
		t.Fatal(err)
	}
	nets, err = l.Networks()
	if err != nil || len(nets) == 0 || nets[0].Prefix.String() != "10.200.0.0/16" || nets[0].Device != "lan0" {
		t.Errorf("networks of the machine: %v, %v", nets, err)
	}
}

// What passes a bound device in a time is bounded; the margins are wide, the exact
// rate is the kernel's affair.
func TestShape(t *testing.T) {
	l := open(t, "tst")
	a, b := make1(t, l, 1), make1(t, l, 2)
	at := netip.AddrPortFrom(spec(2).Addr6, 9000)
	var ln net.Listener
	if err := overlaytest.In(t, b.NetNS, func() (err error) {
		ln, err = net.Listen("tcp", at.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const size = 512 << 10
	transfer := func() time.Duration {
		got := make(chan int64, 1)
		go func() {
			c, err := ln.Accept()
			if err != nil {
				got <- -1
				return
			}
			n, _ := io.Copy(io.Discard, c)
			_ = c.Close()
			got <- n
		}()
		begin := time.Now()
		if err := overlaytest.In(t, a.NetNS, func() error {
			c, err := net.Dial("tcp", at.String())
			if err != nil {
				return err
			}
			_, err = c.Write(make([]byte, size))
			return joinClose(err, c)
		}); err != nil {
			t.Fatal(err)
		}
		if n := <-got; n != size {
			t.Fatalf("%d bytes came of %d", n, size)
		}
		return time.Since(begin)
	}
	for name, shape := range map[string]func(bits int64) error{
		"in":  func(bits int64) error { return l.Shape(spec(2).ID, 2, bits, 0) },
		"out": func(bits int64) error { return l.Shape(spec(1).ID, 1, 0, bits) },
	} {
		// 512 KiB at 16 Mbit/s: a quarter of a second, less the burst.
		if err := shape(16_000_000); err != nil {
			t.Fatal(err)
		}
		if took := transfer(); took < 100*time.Millisecond {
			t.Errorf("%s: 512 KiB in %s at 16 Mbit/s", name, took)
		}
		for range 2 { // no bound, twice
			if err := shape(0); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func joinClose(err error, c io.Closer) error {
	if cerr := c.Close(); err == nil {
		return cerr
	}
	return err
}

func TestOpenRefusesLongMarks(t *testing.T) {
	if _, err := Open(Options{Dir: t.TempDir(), Mark: "toolongx"}); err == nil {
		t.Error("a device's name has 15 characters")
	}
}
