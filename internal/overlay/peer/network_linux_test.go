package peer_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

const testApp = 5

// servicePort is that of a service's first port over TCP.
const servicePort = 8000

// insideOf runs functions in a network namespace.
func insideOf(netns string) func(func() error) error {
	return func(f func() error) error {
		done := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			ns, err := os.Open(netns)
			if err == nil {
				err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
				_ = ns.Close()
			}
			if err == nil {
				err = f()
			}
			done <- err
		}()
		return <-done
	}
}

// sink sends back what it gets, as long as the process lives.
func sink(inside func(func() error) error, port int) error {
	var ln net.Listener
	if err := inside(func() (err error) {
		ln, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		return err
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return nil
}

// networkWorker is a worker with a whole service network and one instance.
func networkWorker() error {
	in := bufio.NewScanner(os.Stdin)
	s, log, err := begin(in)
	if err != nil {
		return err
	}
	id, conf, err := identity(s.Dir)
	if err != nil {
		return err
	}
	me := id.Subject()
	n, err := overlay.Open(overlay.Options{
		Dir: s.Dir, Worker: me.Name, Cluster: me.Cluster, Log: log,
		Ready: func(wire.InstanceID) bool { return true },
		Paths: &overlay.PathOptions{TLS: conf, PeerName: pki.WorkerName,
			RelayName: func(string) string { return pki.RootName }, Verify: id.VerifyLease},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.Start(ctx)
	defer n.Close()
	defer func() { _ = n.Clear() }()
	given := &wire.Network{V: wire.Version, Lease: s.Lease, Relays: s.Relays}
	if err := n.Set(given, nil); err != nil {
		return err
	}
	if err := n.Settle(); err != nil {
		return err
	}
	cfg, _ := conf()
	cfg.NextProtos = []string{peer.Protocol}
	data, err := tls.Listen("tcp", ":"+dataPort, cfg)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := data.Accept()
			if err != nil {
				return
			}
			go n.ServeOffer(ctx, c.(*tls.Conn))
		}
	}()
	inst := "shop.web." + me.Name
	at, err := n.Attach(overlay.Instance{ID: inst, App: "shop", Namespace: "default", AppNumber: testApp})
	if err != nil {
		return err
	}
	inside := insideOf(at.NetNS)
	for _, port := range []int{sinkPort, servicePort} {
		if err := sink(inside, port); err != nil {
			return err
		}
	}
	calls := newCaller(inside)
	fmt.Println("ready")
	for in.Scan() {
		f := strings.Fields(in.Text())
		switch f[0] {
		case "addr":
			fmt.Println(at.Addrs[0])
		case "call", "cpu":
			fmt.Println(calls.do(f))
		case "route": // route WORKER ADDRESS INSTANCE-ADDRESS
			r := wire.Route{App: "shop", Namespace: "default", Service: "web", AppNumber: testApp,
				Policy: "round-robin", Ports: []api.Port{{Protocol: "tcp"}},
				Endpoints: []wire.Endpoint{{Instance: "shop.web." + f[1], Cluster: me.Cluster, Worker: f[1],
					Address: f[2], Addrs: []netip.Addr{netip.MustParseAddr(f[3])}}}}
			err := n.Set(given, []wire.Route{r})
			var m map[string]string
			if err == nil {
				m, err = n.ServiceAddrs("shop", "default", "web", r.Ports)
			}
			if err != nil {
				fmt.Println(err)
				continue
			}
			out, _ := json.Marshal(m)
			fmt.Println(string(out))
		case "status":
			p, err := n.Paths()
			if err != nil {
				log.Error("paths", "error", err)
			}
			out, _ := json.Marshal(p)
			fmt.Println(string(out))
		case "echo":
			if err := inside(func() error { return echo(f[1]) }); err != nil {
				fmt.Println(err)
			} else {
				fmt.Println("ok")
			}
		}
	}
	return nil
}

// An instance reaches one on another worker at its own address, through both
// rulesets and the WireGuard between them.
func TestInstancesOfTwoWorkersReachEachOther(t *testing.T) {
	w := newWorld(t)
	ha, ipA := w.machine()
	hb, ipB := w.machine()
	a, b := w.network("a", ha), w.network("b", hb)
	addrA, addrB := a.say("addr"), b.say("addr")
	t.Log(a.say("route b " + ipB + ":" + dataPort + " " + addrB))
	t.Log(b.say("route a " + ipA + ":" + dataPort + " " + addrA))
	a.awaitPath(b, wire.PathDirect)
	b.awaitPath(a, wire.PathDirect)
	for _, x := range []struct {
		from *node
		to   string
	}{{a, addrB}, {b, addrA}} {
		if got := x.from.say("echo " + x.to); got != "ok" {
			t.Errorf("%s to %s: %s", x.from.name, x.to, got)
		}
	}
}
