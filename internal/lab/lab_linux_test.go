package lab_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/labtest"
)

// TestMain builds what runs in the hosts.
func TestMain(m *testing.M) { os.Exit(labtest.Main(m, "../..")) }

// base is a directory with a short path, since sockets lie in it.
func base(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func options(t *testing.T, dir string) lab.Options {
	t.Helper()
	return lab.Options{Base: filepath.Join(dir, "b"), Verge: labtest.Verge(), Tool: labtest.Tool(), Say: t.Logf}
}

// up makes a lab that ends with the test, and looks that nothing is left of it.
func up(t *testing.T, file string) *lab.Lab {
	t.Helper()
	labtest.Need(t)
	f, err := lab.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	f.Name = fmt.Sprintf("t%d", os.Getpid())
	dir := base(t)
	l, err := lab.Up(t.Context(), f, options(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for name := range f.Hosts {
				b, _ := os.ReadFile(l.Log(name)) // many have none
				t.Logf("--- %s\n%s", name, b[max(0, len(b)-2000):])
			}
		}
		if err := l.Down(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, dir)
	})
	return l
}

// nothingLeft looks for processes, mounts and files of a lab.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, dir) {
			t.Errorf("a mount is left: %s", line)
		}
	}
	cmds, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, c := range cmds {
		b, _ := os.ReadFile(c) // it may have ended
		if bytes.Contains(b, []byte(dir+"/")) {
			t.Errorf("a process is left: %q", b)
		}
	}
}

// datagrams that a host answers, until the test ends.
func echo(t *testing.T, l *lab.Lab, host, network string) {
	t.Helper()
	var c net.PacketConn
	err := l.Do(host, func() (err error) {
		c, err = net.ListenPacket(network, ":7")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 2000)
		for {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(b[:n], from) // what is lost is counted elsewhere
		}
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
}

// dial opens a socket for datagrams to a host.
func dial(t *testing.T, l *lab.Lab, from string, to netip.Addr) net.Conn {
	t.Helper()
	c, err := l.Dial(t.Context(), from, "udp", netip.AddrPortFrom(to, 7).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// exchange sends a datagram and waits for its answer.
func exchange(c net.Conn, n uint64, timeout time.Duration) (time.Duration, error) {
	b := binary.BigEndian.AppendUint64(nil, n)
	begin := time.Now()
	if _, err := c.Write(b); err != nil {
		return 0, err
	}
	if err := c.SetReadDeadline(begin.Add(timeout)); err != nil {
		return 0, err
	}
	for in := make([]byte, 100); ; {
		k, err := c.Read(in)
		if err != nil {
			return 0, err
		}
		if bytes.Equal(in[:k], b) {
			return time.Since(begin), nil
		}
	}
}

const pair = `
seed: 3
links: {default: {rtt: 20ms}}
hosts: {a: {}, b: {}, home: {nat: random}, flat: {nat: cone}}
`

func TestLinks(t *testing.T) {
	l := up(t, pair)
	t.Run("latency", func(t *testing.T) { latency(t, l) })
	t.Run("loss and cut are counted", func(t *testing.T) { lossAndCut(t, l) })
	t.Run("nat", func(t *testing.T) { nat(t, l) })
	t.Run("what cannot be set", func(t *testing.T) {
		for _, hosts := range [][2]string{{"a", "z"}, {"a", "a"}, {"", "b"}} {
			if _, err := l.Set(hosts[0], hosts[1], lab.LinkSpec{}, false); err == nil {
				t.Errorf("a link between %q was set", hosts)
			}
		}
		much := lab.Share(2)
		if _, err := l.Set("a", "b", lab.LinkSpec{Loss: &much}, false); err == nil {
			t.Error("a loss of 2 was set")
		}
	})
}

// What runs in a host with cores has so many, and hosts get them in turns.
func TestCores(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("SKIPPED: this machine has one processor, which every host has")
	}
	l := up(t, "name: c\nhosts: {a: {cores: 1}, b: {cores: 1}, c: {}}\n")
	has := map[string]string{}
	for _, host := range []string{"a", "b", "c"} {
		file := filepath.Join(t.TempDir(), host)
		ended, err := l.Start(host, "sh", "-c", "grep Cpus_allowed_list /proc/self/status > "+file)
		if err != nil {
			t.Fatal(err)
		}
		<-ended
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		has[host] = strings.TrimSpace(strings.TrimPrefix(string(b), "Cpus_allowed_list:"))
	}
	if strings.ContainsAny(has["a"]+has["b"], "-,") || has["a"] == has["b"] || !strings.ContainsAny(has["c"], "-,") {
		t.Errorf("the hosts have the processors %v", has)
	}
}

// latency is never less than set, and about as much: this machine may be busy.
func latency(t *testing.T, l *lab.Lab) {
	m, err := l.Measure([][2]string{{"a", "b"}, {"b", "a"}})
	if err != nil {
		t.Fatal(err)
	}
	echo(t, l, "b", "udp")
	for _, to := range []netip.Addr{l.Address("b"), l.Address6("b")} {
		c := dial(t, l, "a", to)
		var all []time.Duration
		for i := range 15 {
			d, err := exchange(c, uint64(i), 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
		}
		slices.Sort(all)
		if all[0] < 20*time.Millisecond || all[len(all)/2] > 40*time.Millisecond {
			t.Errorf("%s: round trips of %v, set are 20ms", to, all)
		}
	}
	a, err := m.Stop()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(a)
	if a.Pings == 0 || a.ErrorP50 < 0 || a.ErrorP50 > 10*time.Millisecond || a.Packets == 0 {
		t.Errorf("the emulator's error: %+v", a)
	}
}

func lossAndCut(t *testing.T, l *lab.Lab) {
	c := dial(t, l, "b", l.Address("a"))
	echo(t, l, "a", "udp4")
	// Answers to datagrams that are counted say that all before them were, too.
	if _, err := exchange(c, 1<<40, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	all := lab.Share(1)
	if _, err := l.Set("b", "a", lab.LinkSpec{Loss: &all}, true); err != nil {
		t.Fatal(err)
	}
	counts := func(begin [2]uint64, sent int) (lost, cut uint64) {
		deadline := time.Now().Add(10 * time.Second)
		for {
			st, err := l.Stats()
			if err != nil {
				t.Fatal(err)
			}
			n := l.Between(st, []string{"b"}, []string{"a"})
			if n.Lost+n.Cut-begin[0]-begin[1] >= uint64(sent) || time.Now().After(deadline) {
				return n.Lost - begin[0], n.Cut - begin[1]
			}
		}
	}
	for i := range 50 {
		if _, err := c.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if lost, cut := counts([2]uint64{}, 50); lost != 50 || cut != 0 {
		t.Errorf("%d lost and %d cut of 50", lost, cut)
	}
	yes, no, none := true, false, lab.Share(0)
	if _, err := l.Set("a", "b", lab.LinkSpec{Cut: &yes, Loss: &none}, false); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := c.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if lost, cut := counts([2]uint64{50, 0}, 20); lost != 0 || cut != 20 {
		t.Errorf("%d lost and %d cut of 20 on a link that is cut", lost, cut)
	}
	if _, err := l.Set("a", "b", lab.LinkSpec{Cut: &no}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := exchange(c, 1<<41, 10*time.Second); err != nil {
		t.Errorf("after the link healed: %v", err)
	}
}

// nat: two hosts with the same private address reach others, and are reached by
// nobody; from one source a cone shows everybody the same port.
func nat(t *testing.T, l *lab.Lab) {
	for _, host := range []string{"home", "flat"} {
		seen := map[string]string{}
		err := l.Do(host, func() error {
			c, err := net.ListenPacket("udp4", "192.168.7.2:4000")
			if err != nil {
				return err
			}
			defer c.Close()
			for _, to := range []string{"a", "b"} {
				var in net.PacketConn
				err := l.Do(to, func() (err error) { in, err = net.ListenPacket("udp4", ":9"); return err })
				if err != nil {
					return err
				}
				defer in.Close()
				at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.Address(to), 9))
				if _, err := c.WriteTo([]byte("x"), at); err != nil {
					return err
				}
				if err := in.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
					return err
				}
				_, from, err := in.ReadFrom(make([]byte, 10))
				if err != nil {
					return fmt.Errorf("%s to %s: %w", host, to, err)
				}
				seen[to] = from.String()
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		outside := l.Address(host).String()
		if !strings.HasPrefix(seen["a"], outside+":") || !strings.HasPrefix(seen["b"], outside+":") {
			t.Errorf("%s is seen as %v, its NAT is at %s", host, seen, outside)
		}
		if same := seen["a"] == seen["b"]; same != (host == "flat") {
			t.Errorf("%s is seen as %v", host, seen)
		}
	}
	if ln, err := l.Listen("home", "tcp4", ":80"); err != nil {
		t.Fatal(err)
	} else {
		defer ln.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if c, err := l.Dial(ctx, "a", "tcp", l.Address("home").String()+":80"); err == nil {
		c.Close()
		t.Error("a host behind a NAT was reached from outside")
	}
}

// TestCutWhileTrafficFlows: a stream stops at a cut and goes on where it was.
func TestCutWhileTrafficFlows(t *testing.T) {
	l := up(t, "links: {default: {rtt: 2ms, rate: 50Mbps}}\nhosts: {a: {}, b: {}}")
	ln, err := l.Listen("b", "tcp", ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	const size = 1 << 20
	errs := make(chan error, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			defer c.Close()
			_, err = c.Write(make([]byte, size))
		}
		errs <- err
	}()
	c, err := l.Dial(t.Context(), "a", "tcp", l.Address("b").String()+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, size/8)); err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	if _, err := l.Set("a", "b", lab.LinkSpec{Cut: &yes}, false); err != nil {
		t.Fatal(err)
	}
	// What had arrived can be read; then there is nothing more.
	got := size / 8
	for err == nil {
		if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		var n int
		n, err = c.Read(make([]byte, 64<<10))
		got += n
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || got >= size {
		t.Fatalf("with the link cut: %d bytes, %v", got, err)
	}
	if _, err := l.Set("a", "b", lab.LinkSpec{Cut: &no}, false); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	rest, err := io.Copy(io.Discard, c)
	if err != nil || got+int(rest) != size {
		t.Errorf("after the link healed: %d and %d bytes of %d, %v", got, rest, size, err)
	}
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

// A worker joins over a link of 250 ms each way and runs something; then
// everything that made the lab is killed, and down still removes it all.
func TestFarWorkerAndKill(t *testing.T) {
	labtest.Need(t)
	dir := base(t)
	o := options(t, dir)
	f, err := lab.Parse([]byte(`
links: {between: [{hosts: [edge, far], latency: 250ms}]}
hosts: {root: {role: root}, edge: {role: cluster}, far: {role: worker, flags: [--network, overlay]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	f.Name = "killed"
	l, err := lab.Up(t.Context(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Down(); err != nil { // does no harm if it is gone
			t.Error(err)
		}
	}()
	c, err := l.Client("root")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Applications.Apply(t.Context(), []byte("application: far\nservices: {main: {command: [sleep, \"1000\"]}}"), false); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for holds := false; !holds; {
		v, err := c.Applications.Get(t.Context(), "far")
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("it does not run: %+v, %v", v, err)
		}
		holds = v.Holds
	}
	pids, err := l.Processes("far")
	if err != nil || len(pids) < 3 { // agent, engine, instance
		t.Fatalf("processes %v, %v", pids, err)
	}
	// Agents first: they would start their engines again.
	for _, host := range []string{"switch.lab", "root", "edge"} {
		pids, err := l.Processes(host)
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := lab.Up(t.Context(), f, o); err == nil || !strings.Contains(err.Error(), "verge lab down") {
		t.Fatalf("a second lab of that name: %v", err)
	}
	again, err := lab.Of("", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Down(); err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, dir)
	if _, err := lab.Of("", o); err == nil || !strings.Contains(err.Error(), "no lab is up") {
		t.Errorf("after it is gone: %v", err)
	}
}
