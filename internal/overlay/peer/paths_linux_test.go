package peer_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/overlay/nstest"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// world is the authority, and an internet that machines are connected to.
type world struct {
	t       testing.TB
	root    *pki.Authority
	cluster *pki.ClusterAuthority
	net     *nstest.Host
	links   int
	numbers uint32
	relays  []wire.Relay
}

func newWorld(t testing.TB) *world {
	t.Helper()
	nstest.Need(t)
	if err := probeTUN(t); errors.Is(err, wg.ErrUnsupported) {
		t.Skip(err)
	}
	w := &world{t: t, net: nstest.New(t)}
	w.net.Forward()
	var err error
	if w.root, err = pki.OpenAuthority(t.TempDir(), time.Now()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pub, err := pki.EnsureClusterKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := w.root.SignCluster(pub, "edge", time.Now())
	if err == nil {
		err = pki.SaveCluster(dir, chain, w.root.PEM())
	}
	if err == nil {
		w.cluster, err = pki.OpenClusterAuthority(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// probeTUN finds out whether there can be a device at all.
func probeTUN(t testing.TB) error {
	t.Helper()
	key, err := wg.EnsureKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	nstest.New(t).Do(func() {
		var d *wg.Device
		if d, err = wg.Open(wg.Options{Key: key}); err == nil {
			err = d.Destroy()
		}
	})
	return err
}

// machine on the internet, and its address there.
func (w *world) machine() (*nstest.Host, string) {
	w.t.Helper()
	w.links++
	h := nstest.New(w.t)
	gw, own := fmt.Sprintf("203.0.%d.1", w.links), fmt.Sprintf("203.0.%d.2", w.links)
	nstest.Link(h, "wan", own+"/24", w.net, fmt.Sprintf("to%d", w.links), gw+"/24")
	h.Route(gw)
	return h, own
}

// The ways in which a router gives its own address to what is behind it: the same
// port for all destinations, or another one for each.
const (
	cone      = "masquerade"
	symmetric = "masquerade fully-random"
)

// behind a router that lets in answers alone. All use the same private network.
func (w *world) behind(nat string) *nstest.Host {
	w.t.Helper()
	r, _ := w.machine()
	r.Forward()
	h := nstest.New(w.t)
	nstest.Link(h, "lan", "192.168.1.2/24", r, "lan", "192.168.1.1/24")
	h.Route("192.168.1.1")
	r.NFT(`
table ip translate {
	chain out {
		type nat hook postrouting priority 100
		oifname "wan" ` + nat + `
	}
}
table ip keep {
	chain here {
		type filter hook input priority 0
		iifname "wan" ct state established,related accept
		iifname "wan" drop
	}
	chain through {
		type filter hook forward priority 0
		iifname "wan" ct state established,related accept
		iifname "wan" drop
	}
}
`)
	return h
}

// node is a helper on a host.
type node struct {
	t     testing.TB
	name  string
	kind  string
	host  *nstest.Host
	ip    string // of a relay
	setup setup
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
}

func (w *world) identity(s pki.Subject) string {
	w.t.Helper()
	dir := w.t.TempDir()
	at := filepath.Join(dir, "id")
	pub, err := pki.EnsureKey(at)
	if err != nil {
		w.t.Fatal(err)
	}
	req := pki.LeafRequest{Subject: s, PublicKey: pub}
	var chain string
	if s.Role == pki.RoleRoot {
		chain, err = w.root.Issue(req, time.Now())
	} else {
		chain, err = w.cluster.Issue(req, time.Now())
	}
	if err == nil {
		err = pki.SaveIdentity(at, chain, w.root.PEM())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// relay on a machine of its own, which all workers made later know.
func (w *world) relay() *node {
	w.t.Helper()
	h, at := w.machine()
	n := &node{t: w.t, name: "relay", kind: "relay", host: h, ip: at,
		setup: setup{Dir: w.identity(pki.Subject{Role: pki.RoleRoot}), Listen: at + ":8475"}}
	n.start()
	w.relays = append(w.relays, wire.Relay{Name: "root", Addresses: []string{at + ":8475"}})
	return n
}

func (w *world) worker(name string, h *nstest.Host) *node { return w.node("worker", name, h) }

// network is a worker with a whole service network.
func (w *world) network(name string, h *nstest.Host) *node { return w.node("network", name, h) }

func (w *world) node(kind, name string, h *nstest.Host) *node {
	w.t.Helper()
	w.numbers++
	lease := wire.Lease{V: 1, Cluster: "edge", Worker: name, Prefix: netip.MustParsePrefix("fd12:3456:789a::/48"),
		Number: w.numbers}
	signed, err := w.cluster.SignLease(lease)
	if err != nil {
		w.t.Fatal(err)
	}
	n := &node{t: w.t, name: name, kind: kind, host: h, setup: setup{
		Dir: w.identity(pki.Subject{Role: pki.RoleWorker, Cluster: "edge", Name: name}), Lease: signed,
		Relays: w.relays,
		Inner:  netip.MustParseAddr(fmt.Sprintf("fd12:3456:789a:0:%x::1", w.numbers)),
	}}
	n.start()
	return n
}

func (n *node) start() {
	n.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	n.cmd = n.host.Command(exe)
	n.cmd.Env = append(os.Environ(), helperEnv+"="+n.kind)
	n.cmd.Stderr = logger{n.t, n.name}
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	n.in, err = n.cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	out, err := n.cmd.StdoutPipe()
	if err == nil {
		err = n.cmd.Start()
	}
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.kill)
	n.out = bufio.NewScanner(out)
	n.out.Buffer(nil, 1<<20)
	data, err := json.Marshal(n.setup)
	if err != nil {
		n.t.Fatal(err)
	}
	if got := n.say(string(data)); got != "ready" {
		n.t.Fatalf("%s: %q", n.name, got)
	}
}

// kill ends the helper without a word.
func (n *node) kill() {
	if n.cmd.ProcessState == nil {
		_ = syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL)
		_ = n.cmd.Wait()
	}
}

// logger puts a helper's log into the test's.
type logger struct {
	t    testing.TB
	name string
}

func (l logger) Write(p []byte) (int, error) {
	l.t.Logf("%s: %s", l.name, strings.TrimSpace(string(p)))
	return len(p), nil
}

func (n *node) say(line string) string {
	n.t.Helper()
	if _, err := fmt.Fprintln(n.in, line); err != nil {
		n.t.Fatalf("%s: %v", n.name, err)
	}
	if !n.out.Scan() {
		n.t.Fatalf("%s has ended: %v", n.name, n.out.Err())
	}
	return n.out.Text()
}

func (n *node) status() (p peer.Paths) {
	n.t.Helper()
	if err := json.Unmarshal([]byte(n.say("status")), &p); err != nil {
		n.t.Fatal(err)
	}
	return p
}

// await polls until ok is true of the node's paths.
func (n *node) await(what string, ok func(peer.Paths) bool) {
	n.t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s := n.status()
		if ok(s) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			n.t.Fatalf("%s: waited for %s: %+v", n.name, what, s)
		}
	}
}

func (n *node) awaitPath(to *node, kind string) {
	n.t.Helper()
	n.await("a path "+kind+" to "+to.name, func(p peer.Paths) bool {
		for _, x := range p.Peers {
			if x.Worker == to.name {
				return x.Path == kind
			}
		}
		return false
	})
}

func (n *node) awaitHome() {
	n.t.Helper()
	n.await("a relay", func(p peer.Paths) bool { return p.Relay != "" })
}

// echo sends something to another worker and back.
func (n *node) echo(to *node) {
	n.t.Helper()
	if got := n.say("echo " + to.setup.Inner.String()); got != "ok" {
		n.t.Fatalf("%s to %s: %s", n.name, to.name, got)
	}
}

// Who is revoked is no peer any more, at once.
func TestTwoPublicWorkersReachEachOtherDirectly(t *testing.T) {
	w := newWorld(t)
	ha, _ := w.machine()
	hb, at := w.machine()
	a, b := w.worker("a", ha), w.worker("b", hb)
	a.say("want b " + at + ":" + dataPort)
	a.awaitPath(b, wire.PathDirect)
	b.awaitPath(a, wire.PathDirect)
	a.echo(b)
	b.echo(a)
	a.say("revoke somebody")
	a.echo(b)
	a.say("revoke b")
	if got := a.say("echo " + b.setup.Inner.String()); got == "ok" {
		t.Error("there is still a way to who was revoked")
	}
	if s := a.status(); len(s.Peers) > 0 {
		t.Errorf("who was revoked is still a peer: %+v", s.Peers)
	}
}

// Without any relay: the one behind NAT reaches the other, and is then reached.
func TestWorkerBehindNATReachesPublicOne(t *testing.T) {
	w := newWorld(t)
	hb, at := w.machine()
	a, b := w.worker("a", w.behind(symmetric)), w.worker("b", hb)
	a.say("want b " + at + ":" + dataPort)
	a.awaitPath(b, wire.PathDirect)
	a.echo(b)
	b.awaitPath(a, wire.PathDirect)
	b.echo(a)
}

// The offer goes through the relay, the packets don't.
func TestPublicWorkerReachesOneBehindNAT(t *testing.T) {
	w := newWorld(t)
	w.relay()
	ha, _ := w.machine()
	a, b := w.worker("a", ha), w.worker("b", w.behind(symmetric))
	b.awaitHome()
	if s := b.status(); !s.NAT {
		t.Errorf("a worker behind NAT does not know: %+v", s)
	}
	a.say("want b root")
	a.awaitPath(b, wire.PathDirect)
	a.echo(b)
}

// Both are 192.168.1.2 at home: that address must lead neither to itself.
func TestTwoNATsThatKeepPortsArePunched(t *testing.T) {
	w := newWorld(t)
	w.relay()
	a, b := w.worker("a", w.behind(cone)), w.worker("b", w.behind(cone))
	a.awaitHome()
	b.awaitHome()
	a.say("want b")
	a.awaitPath(b, wire.PathDirect)
	b.awaitPath(a, wire.PathDirect)
	a.echo(b)
}

func TestTwoSymmetricNATsUseTheRelayWhichMayDieAndReturn(t *testing.T) {
	w := newWorld(t)
	r := w.relay()
	a, b := w.worker("a", w.behind(symmetric)), w.worker("b", w.behind(symmetric))
	a.awaitHome()
	b.awaitHome()
	a.say("want b")
	a.awaitPath(b, wire.PathRelay)
	a.echo(b)
	b.echo(a)
	if s := r.say("stats"); !strings.Contains(s, `"Channels":1`) {
		t.Errorf("the relay counts %s", s)
	}
	r.kill()
	r.start()
	a.echoSoon(b)
	b.echo(a)
}

// echoSoon tries until it works: connections that are opened while the path is
// gone may fail.
func (n *node) echoSoon(to *node) {
	n.t.Helper()
	last := ""
	for range 6 {
		if last = n.say("echo " + to.setup.Inner.String()); last == "ok" {
			return
		}
	}
	n.t.Fatalf("%s to %s: %s", n.name, to.name, last)
}

func TestRelayTakesOverWhileTheDirectPathIsCut(t *testing.T) {
	w := newWorld(t)
	w.relay()
	ha, ipA := w.machine()
	hb, ipB := w.machine()
	a, b := w.worker("a", ha), w.worker("b", hb)
	a.awaitHome()
	b.awaitHome()
	a.say("want b " + ipB + ":" + dataPort + " root")
	a.awaitPath(b, wire.PathDirect)
	a.echo(b)
	w.net.NFT(`
table ip cut {
	chain through {
		type filter hook forward priority 0
		ip saddr { ` + ipA + `, ` + ipB + ` } ip daddr { ` + ipA + `, ` + ipB + ` } drop
	}
}
`)
	a.echoSoon(b)
	a.awaitPath(b, wire.PathRelay)
	w.net.NFT(`delete table ip cut`)
	a.awaitPath(b, wire.PathDirect)
	b.awaitPath(a, wire.PathDirect)
	a.echo(b)
}

// What goes through the relay goes on without it, though the one that can be reached
// has restarted meanwhile and knows nobody.
func TestDeadRelayIsNoWayBackToOneThatRestarted(t *testing.T) {
	w := newWorld(t)
	r := w.relay()
	ha, ipA := w.machine()
	a, b := w.worker("a", ha), w.worker("b", w.behind(symmetric))
	a.awaitHome()
	b.awaitHome()
	w.net.NFT(`
table ip cut {
	chain through {
		type filter hook forward priority 0
		ip saddr ` + ipA + ` ip daddr != ` + r.ip + ` drop
		ip daddr ` + ipA + ` ip saddr != ` + r.ip + ` drop
	}
}
`)
	b.say("want a " + ipA + ":" + dataPort + " root")
	b.awaitPath(a, wire.PathRelay)
	b.echo(a)
	r.kill()
	a.kill()
	w.net.NFT(`delete table ip cut`)
	a.start()
	b.echoSoon(a)
	b.awaitPath(a, wire.PathDirect)
	a.awaitPath(b, wire.PathDirect)
	a.echo(b)
}
