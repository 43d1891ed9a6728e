package daemon

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/overlay/nstest"
)

// A network that cannot be made is none, and nothing is left of it; verge dev --network auto
// goes on without.
func TestNetworkThatCannotBeMade(t *testing.T) {
	nstest.Need(t)
	h, dir := nstest.New(t), t.TempDir()
	h.Run("ip", "link", "add", devBridgeName(devMark(dir)), "type", "bridge")
	h.Do(func() {
		if n, err := openDevNetwork(dir, true); n != nil || err == nil {
			t.Errorf("%+v, %v", n, err)
		}
	})
	// The settings of the kernel cannot be written, as in many a container.
	h.Do(func() {
		err := unix.Unshare(unix.CLONE_NEWNS)
		for _, m := range []struct {
			source, target string
			flags          uintptr
		}{{"", "/", unix.MS_PRIVATE | unix.MS_REC}, {"/proc/sys", "/proc/sys", unix.MS_BIND},
			{"", "/proc/sys", unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY}} {
			err = errors.Join(err, unix.Mount(m.source, m.target, "", m.flags, ""))
		}
		if err != nil {
			t.Error(err)
			return
		}
		if n, err := openDevNetwork(t.TempDir(), true); n != nil || err == nil {
			t.Errorf("%+v, %v", n, err)
		}
	})
	if tables := h.Run("nft", "list", "tables"); strings.Contains(tables, "verge") {
		t.Errorf("left: %s", tables)
	}
}

// While two verge dev run, each with its network, the machine forwards, until the last ends.
func TestTwoNetworksForward(t *testing.T) {
	nstest.Need(t)
	h := nstest.New(t)
	forwards := func(when, want string) {
		if got := strings.TrimSpace(h.Run("cat", "/proc/sys/net/ipv4/ip_forward")); got != want {
			t.Errorf("%s the machine forwards: %s, want %s", when, got, want)
		}
	}
	h.Run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_forward")
	var list [2]*devNetwork
	for i := range list {
		h.Do(func() {
			var err error
			if list[i], err = openDevNetwork(t.TempDir(), true); err != nil {
				t.Error(err)
			}
		})
	}
	if t.Failed() {
		return
	}
	forwards("with two", "1")
	for i, want := range []string{"1", "0"} {
		h.Do(func() {
			if err := list[i].remove(); err != nil {
				t.Error(err)
			}
		})
		forwards("after one has ended", want)
	}
}

// A worker that ends by itself ends its process, from which verge dev learns of it.
func TestAPartThatEndsIsNoticed(t *testing.T) {
	ended := make(chan struct{})
	d := &devWorkers{log: slog.New(slog.DiscardHandler), ended: func() { close(ended) }}
	why := errors.New("no cluster")
	d.fail(why)
	<-ended
	if !errors.Is(d.failure(), why) {
		t.Errorf("%v", d.failure())
	}
}

func TestPickNetworkAvoidsRoutes(t *testing.T) {
	p := func(s ...string) (list []netip.Prefix) {
		for _, x := range s {
			list = append(list, netip.MustParsePrefix(x))
		}
		return list
	}
	for _, c := range []struct {
		first uint32
		taken []netip.Prefix
		want  string
	}{
		{0, nil, "198.18.0.1/20"},
		{0x74eaa, nil, "198.18.160.1/20"}, // 0x74eaa modulo 32 is 10
		{31, nil, "198.19.240.1/20"},
		{31, p("198.19.255.7/32"), "198.18.0.1/20"},
		{0, p("198.18.0.0/16", "10.0.0.0/8"), "198.19.0.1/20"},
		{3, p("198.18.0.0/15"), ""},
	} {
		got, err := pickNetwork(c.first, c.taken)
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
			t.Errorf("from %d without %v: %s, %v, want %s", c.first, c.taken, got, err, c.want)
		}
	}
}
