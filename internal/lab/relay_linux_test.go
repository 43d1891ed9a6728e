package lab_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/lab"
)

// await asks until the answer is yes; why says what is the case.
func await(t *testing.T, what string, ask func() (yes bool, why any)) {
	t.Helper()
	begin := time.Now()
	deadline := begin.Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, why := ask()
		if yes {
			t.Logf("%s: after %v", what, time.Since(begin).Round(10*time.Millisecond))
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not come: %v", what, why)
		}
		<-tick.C
	}
}

// inNetwork are instances that only sleep, one of each service at the worker of that
// name, and their addresses in the service network.
func inNetwork(t *testing.T, c *client.Client, workers ...string) map[string]apiv1.InstanceView {
	t.Helper()
	text := "application: far\nservices:\n"
	for _, w := range workers {
		text += fmt.Sprintf("  %s: {command: [sleep, \"1000\"], ports: [{name: tcp}], readiness: {exec: {command: [\"true\"]}}, affinity: {labels: {is: %s}}}\n", w, w)
	}
	if _, err := c.Applications.Apply(t.Context(), []byte(text), false); err != nil {
		t.Fatal(err)
	}
	at := map[string]apiv1.InstanceView{}
	await(t, "instances with addresses", func() (bool, any) {
		list, err := c.Instances.List(t.Context(), "far", "")
		for _, v := range list {
			if len(v.Addrs) > 0 && v.Ready {
				at[v.Worker] = v
			}
		}
		return len(at) == len(workers), fmt.Sprint(list, err)
	})
	return at
}

// Two workers behind NATs that cannot be passed reach each other through a worker
// that is a relay, and when that is gone through another.
func TestWorkersAreRelays(t *testing.T) {
	l := up(t, `
hosts:
  root: {role: root}
  edge: {role: cluster}
  a: {role: worker, nat: random, flags: [--network, overlay, --label, is=a]}
  b: {role: worker, nat: random, flags: [--network, overlay, --label, is=b]}
  r1: {role: worker, flags: [--network, loopback, --relay, ":8475"]}
  r2: {role: worker, flags: [--network, loopback, --relay, ":8475", --relay-rate, 50Mbps]}
`)
	c, err := l.Client("root")
	if err != nil {
		t.Fatal(err)
	}
	at := inNetwork(t, c, "a", "b")
	address := func(worker string) string { return netip.AddrPortFrom(at[worker].Addrs[0], 8000).String() }
	for _, worker := range []string{"a", "b"} {
		var ln net.Listener
		if err := l.Inside(worker, at[worker].ID, func() (err error) {
			ln, err = net.Listen("tcp", address(worker))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("here"))
				_ = c.Close()
			}
		}()
	}
	ask := func(from, to string) error {
		return l.Inside(from, at[from].ID, func() error {
			c, err := net.DialTimeout("tcp", address(to), 2*time.Second)
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
				return err
			}
			_, err = c.Read(make([]byte, 4))
			return err
		})
	}
	asked := func() error { return errors.Join(ask("a", "b"), ask("b", "a")) }
	// home is the relay at which b is reached, as verge describe shows it.
	home := func() string {
		list, err := c.Workers.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range list {
			if w.Name == "b" && w.Network != nil {
				_, relay, _ := strings.Cut(w.Network.Via, "/")
				return relay
			}
		}
		return ""
	}
	used := ""
	await(t, "a path by a relay", func() (bool, any) { err := asked(); return err == nil, err })
	await(t, "the name of the relay", func() (bool, any) { used = home(); return used != "", used })
	if used != "r1" && used != "r2" {
		t.Fatalf("it is reached by %q", used)
	}
	kill(t, l, used)
	// Packets that are lost are what shows it.
	await(t, "a path by another relay", func() (bool, any) {
		err := asked()
		now := home()
		return err == nil && now != "" && now != used, fmt.Sprint(now, err)
	})
}

// kill ends all that runs on a host.
func kill(t *testing.T, l *lab.Lab, host string) {
	t.Helper()
	pids, err := l.Processes(host)
	if err != nil || len(pids) == 0 {
		t.Fatalf("processes of %s: %v, %v", host, pids, err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}
