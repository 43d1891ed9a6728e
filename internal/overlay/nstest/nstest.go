//go:build linux

package nstest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/verge-edge/verge/internal/onthread"
)

// Need skips the test loudly where it cannot make namespaces, and fails it where
// nothing may be skipped.
func Need(t testing.TB) {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "needs root for network namespaces"
	}
	for _, p := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(p); err != nil {
			why = "needs the program " + p + " (apt-get install iproute2 nftables)"
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		why = "needs /dev/net/tun"
	}
	if why == "" {
		return
	}
	if os.Getenv("VERGE_CI_NO_SKIP") != "" && os.Geteuid() == 0 {
		t.Fatal("SKIPPED IN CI: " + why)
	}
	t.Skip("SKIPPED: " + why)
}

const prefix = "vwan"

var count atomic.Int64

// Host is a network namespace that plays a machine.
type Host struct {
	t  testing.TB
	ns string
}

// New makes a host. It is removed at the end of the test, and so is what killed
// runs have left.
func New(t testing.TB) *Host {
	t.Helper()
	sweep(t)
	h := &Host{t, fmt.Sprintf("%s%d-%d", prefix, os.Getpid(), count.Add(1))}
	ip(t, "netns", "add", h.ns)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", h.ns).Run() })
	h.Run("ip", "link", "set", "lo", "up")
	return h
}

// sweep removes hosts whose process is dead.
func sweep(t testing.TB) {
	dirs, _ := filepath.Glob("/run/netns/" + prefix + "*")
	for _, d := range dirs {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(d), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && syscall.Kill(n, 0) == syscall.ESRCH {
			t.Logf("removing %s, which a killed run has left", d)
			_ = exec.Command("ip", "netns", "del", filepath.Base(d)).Run()
		}
	}
}

func ip(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("ip", args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// Name of the namespace.
func (h *Host) Name() string { return h.ns }

// Path of the namespace's file.
func (h *Host) Path() string { return "/run/netns/" + h.ns }

// Run runs a program on the host.
func (h *Host) Run(name string, args ...string) string {
	h.t.Helper()
	return ip(h.t, append([]string{"netns", "exec", h.ns, name}, args...)...)
}

// Command is a program on the host that is not started yet.
func (h *Host) Command(name string, args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.ns, name}, args...)...)
}

// NFT loads a ruleset.
func (h *Host) NFT(rules string) {
	h.t.Helper()
	cmd := h.Command("nft", "-f", "-")
	cmd.Stdin = bytes.NewBufferString(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("nft: %v: %s\n%s", err, out, rules)
	}
}

// Link joins two hosts by a cable with an address (CIDR) at each end.
func Link(a *Host, aName, aAddr string, b *Host, bName, bAddr string) {
	a.t.Helper()
	ip(a.t, "-n", a.ns, "link", "add", aName, "type", "veth", "peer", "name", bName, "netns", b.ns)
	for _, e := range []struct {
		h          *Host
		name, addr string
	}{{a, aName, aAddr}, {b, bName, bAddr}} {
		ip(a.t, "-n", e.h.ns, "addr", "add", e.addr, "dev", e.name)
		ip(a.t, "-n", e.h.ns, "link", "set", e.name, "up")
	}
}

// Route sends all that has no other way through a neighbour.
func (h *Host) Route(via string) {
	h.t.Helper()
	ip(h.t, "-n", h.ns, "route", "add", "default", "via", via)
}

// Forward makes the host a router.
func (h *Host) Forward() {
	h.t.Helper()
	h.Run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
}

// Do runs f on a thread that is on the host: sockets and devices that it makes
// there belong to the host, goroutines that it starts do not.
func (h *Host) Do(f func()) {
	h.t.Helper()
	err := onthread.InNetwork("/run/netns/"+h.ns, func() error {
		f()
		return nil
	})
	if err != nil {
		h.t.Fatalf("enter %s: %v", h.ns, err)
	}
}

// Listen is net.Listen on the host.
func (h *Host) Listen(network, addr string) net.Listener {
	h.t.Helper()
	var ln net.Listener
	var err error
	h.Do(func() { ln, err = net.Listen(network, addr) })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = ln.Close() })
	return ln
}
