package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A machine is a network namespace with an address of its own on a bridge that
// all machines and the tests share. Its loopback is its own too. What goes in
// and out of it can be dropped or answered with a reset by the kernel, so that
// a process in it meets the real thing.
type machine struct {
	name string
	ip   string
	ns   *os.File
	veth string // its port of the bridge

	mu     sync.Mutex
	faults map[string][]string // rules by the name of the fault
}

// lan is the bridge; there is one in the tests' own network.
var lan struct {
	sync.Mutex
	up   error // why it is not, once made
	made bool
	next int // host number of the next machine
}

// Addresses: the bridge is .0.1, machines follow.
const (
	lanBridge = "vgbr"
	lanMAC    = "02:00:0a:4d:00:01"
	lanNet    = "10.77.%d.%d"
)

// newMachine makes a machine that ends with owner; t is the test of the moment.
func newMachine(owner, t *testing.T, name string) *machine {
	t.Helper()
	lan.Lock()
	defer lan.Unlock()
	if !lan.made {
		lan.made, lan.next = true, 1
		// With an address of its own: otherwise it has that of one of its ports, and
		// when that machine is removed all others send into the void until they ask
		// anew who has the bridge's address, which takes up to a minute.
		lan.up = ip("link add "+lanBridge+" address "+lanMAC+" type bridge stp_state 0 forward_delay 0", "addr add "+fmt.Sprintf(lanNet, 0, 1)+"/16 dev "+lanBridge, "link set "+lanBridge+" up")
	}
	if lan.up != nil {
		t.Fatal(lan.up)
	}
	lan.next++
	n := lan.next
	m := &machine{name: name, ip: fmt.Sprintf(lanNet, n/250, n%250+1), veth: "vg" + strconv.Itoa(n), faults: map[string][]string{}}
	if err := m.open(); err != nil {
		t.Fatalf("making the machine %s: %v", name, err)
	}
	owner.Cleanup(func() {
		// The other end of the cable goes with it.
		if err := errors.Join(ip("link del "+m.veth), m.ns.Close()); err != nil {
			owner.Errorf("removing the machine %s: %v", name, err)
		}
	})
	return m
}

func (m *machine) open() error {
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = loopbackUp()
		}
		if err == nil {
			m.ns, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return err
	}
	path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.ns.Fd())
	err := ip("link add "+m.veth+" type veth peer name eth0 netns "+path, "link set "+m.veth+" master "+lanBridge+" up")
	if err != nil {
		return err
	}
	return m.do(func() error { return ip("addr add "+m.ip+"/16 dev eth0", "link set eth0 up") })
}

// do calls f with this machine's network. What f starts stays there.
func (m *machine) do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this
		err := unix.Setns(int(m.ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		}
		done <- err
	}()
	return <-done
}

func (m *machine) addr(port int) string { return net.JoinHostPort(m.ip, strconv.Itoa(port)) }

// What becomes of packets, in the language of nftables.
const (
	vanish = "drop"
	// A reset must not be answered with one, nor be stopped on its way out.
	refuse = "meta l4proto tcp tcp flags & rst != rst reject with tcp reset"
)

// lose is that some of a hundred packets vanish.
func lose(percent int) string { return fmt.Sprintf("numgen random mod 100 < %d drop", percent) }

// all packets between this machine and others.
var outside = [2]string{`iifname != "lo"`, `oifname != "lo"`}

// flow is what passes between this machine and a port of another one.
func flow(addr string) [2]string {
	host, port, _ := net.SplitHostPort(addr)
	return [2]string{"ip saddr " + host + " tcp sport " + port, "ip daddr " + host + " tcp dport " + port}
}

// port is a port of this machine; on its loopback or for the others.
func port(n string, loopback bool) [2]string {
	not := "!="
	if loopback {
		not = "=="
	}
	return [2]string{
		"iifname " + not + ` "lo" tcp dport ` + n, "oifname " + not + ` "lo" tcp sport ` + n,
	}
}

// peers are the given port of other machines.
func peers(n string) [2]string {
	return [2]string{`iifname != "lo" tcp sport ` + n, `oifname != "lo" tcp dport ` + n}
}

// fail begins a fault: what becomes of the packets that match, inward and
// outward.
func (m *machine) fail(t *testing.T, name, action string, matches ...[2]string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var rules []string
	for _, match := range matches {
		rules = append(rules, "add rule inet verge_test in "+match[0]+" "+action, "add rule inet verge_test out "+match[1]+" "+action)
	}
	m.faults[name] = rules
	m.apply(t)
}

// repair ends a fault.
func (m *machine) repair(t *testing.T, name string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.faults, name)
	m.apply(t)
}

// apply gives the kernel all rules anew. The mutex is held.
func (m *machine) apply(t *testing.T) {
	t.Helper()
	rules := []string{
		"add table inet verge_test", "delete table inet verge_test", "add table inet verge_test",
		"add chain inet verge_test in { type filter hook input priority 0; }",
		"add chain inet verge_test out { type filter hook output priority 0; }",
	}
	for _, f := range m.faults {
		rules = append(rules, f...)
	}
	if err := m.do(func() error { return run1("nft", []string{"-f", "-"}, rules) }); err != nil {
		t.Fatalf("rules of the machine %s: %v", m.name, err)
	}
}

// ip runs commands of the program of that name.
func ip(lines ...string) error { return run1("ip", []string{"-batch", "-"}, lines) }

func run1(name string, args, lines []string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s\n%s", name, err, out.String(), strings.Join(lines, "\n"))
	}
	return nil
}
