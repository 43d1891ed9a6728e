package overlay

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/overlay/wg"
)

// The tunnel is as its operator set it, and says so; without a setting its packets
// fit the machine's own connection.
func TestTunnelIsAsItWasSet(t *testing.T) {
	overlaytest.Need(t)
	key, err := wg.EnsureKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	dev, err := wg.Open(wg.Options{Key: key})
	if errors.Is(err, wg.ErrUnsupported) {
		overlaytest.Without(t, err.Error())
	}
	if err == nil {
		err = dev.Destroy()
	}
	if err != nil {
		t.Fatal(err)
	}
	narrow := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "narrow", MTU: 1400}, PeerName: "nowhere"}
	if err := errors.Join(netlink.LinkAdd(narrow), netlink.LinkSetUp(narrow)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netlink.LinkDel(narrow) })
	if err := netlink.RouteAdd(&netlink.Route{LinkIndex: narrow.Index, Scope: netlink.SCOPE_LINK,
		Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		set  PathOptions
		want Tunnel
		port uint16
	}{
		"unset": {PathOptions{}, Tunnel{MTU: 1400 - wg.Overhead}, wg.DefaultPort},
		"set":   {PathOptions{Port: 51820, MTU: 1500, Rate: 19_000_000}, Tunnel{MTU: 1500, Rate: 19_000_000}, 51820},
	} {
		t.Run(name, func(t *testing.T) {
			type told struct {
				Tunnel
				port uint16
			}
			said := make(chan told, 16)
			w := newWorldWith(t, func(o *Options) {
				p := c.set
				p.TLS = func() (*tls.Config, error) { return nil, errors.New("nobody is reached here") }
				p.Changed = func(p peer.Paths, t Tunnel) { said <- told{t, p.Port} }
				o.Paths = &p
			})
			w.set()
			if err := w.n.Settle(); err != nil {
				t.Fatal(err)
			}
			got := <-said
			c.want.Mode = got.Mode
			if got.Tunnel != c.want || got.port != c.port {
				t.Errorf("with %+v it is %+v, want %+v at port %d", c.set, got, c.want, c.port)
			}
			link, err := netlink.LinkByName(w.n.links.Own(peersDevice))
			if err != nil || link.Attrs().MTU != c.want.MTU {
				t.Errorf("the device: %+v, %v", link, err)
			}
			qdiscs, err := netlink.QdiscList(link)
			shaped := err == nil && len(qdiscs) > 0 && qdiscs[0].Type() == "tbf"
			if shaped != (c.want.Rate > 0) {
				t.Errorf("queues %v, %v", qdiscs, err)
			}
		})
	}
}

// Two ends that could send more than the tunnel between them carries agree on
// segments that fit it.
func TestSegmentsFitTheTunnel(t *testing.T) {
	const wide, narrow, headers = 1500, 1300, 60
	w := newWorldWith(t, func(o *Options) { o.MTU = wide })
	w.set()
	near := w.attach("shop.web.0", 1)
	// The tunnel is a cable here, whose end plays an instance of another worker; the
	// namespace of one is there for it.
	other := w.attach("shop.db.0", 1)
	far := netip.MustParseAddrPort("[fd12:3456:789a:0:9:0:100:1]:80")
	name, mac := w.n.links.Own(peersDevice), "02:00:00:00:00:0"
	ip := func(at string, args ...string) {
		t.Helper()
		cmd := exec.Command("ip", args...)
		if at != "" {
			cmd = exec.Command("nsenter", append([]string{"--net=" + at, "ip"}, args...)...)
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	ip("", "link", "add", name, "mtu", strconv.Itoa(wide), "address", mac+"1", "type", "veth", "peer", "name", "cable",
		"address", mac+"2")
	t.Cleanup(func() { ip("", "link", "del", name) })
	cable, err := netlink.LinkByName("cable")
	if err != nil {
		t.Fatal(err)
	}
	there, err := os.Open(other.NetNS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = there.Close() }()
	if err := netlink.LinkSetNsFd(cable, int(there.Fd())); err != nil {
		t.Fatal(err)
	}
	ip("", "link", "set", name, "mtu", strconv.Itoa(narrow), "up")
	ip(other.NetNS, "link", "set", "cable", "up")
	ip(other.NetNS, "addr", "add", far.Addr().String()+"/128", "dev", "cable", "nodad")
	for _, end := range []struct{ at, dev, to, mac string }{{"", name, far.Addr().String(), mac + "2"},
		{other.NetNS, "cable", near.Addrs[0].String(), mac + "1"}} {
		ip(end.at, "route", "add", end.to+"/128", "dev", end.dev)
		ip(end.at, "neigh", "replace", end.to, "lladdr", end.mac, "dev", end.dev)
	}
	var ln net.Listener
	if err := overlaytest.In(t, other.NetNS, func() (err error) {
		ln, err = net.Listen("tcp", far.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	var sent net.Conn
	if err := overlaytest.In(t, near.NetNS, func() (err error) {
		sent, err = net.DialTimeout("tcp", far.String(), 10*time.Second)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sent.Close() }()
	taken, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for what, c := range map[string]net.Conn{"who connects": sent, "who accepts": taken} {
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			if err != nil || i.Snd_mss > narrow-headers || i.Snd_mss < narrow-headers-20 {
				t.Errorf("%s sends segments of %+v, %v", what, i, err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}
