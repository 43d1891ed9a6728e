package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
)

// poolExhausted: there are four networks, of which a cluster gets half at most. The
// worker that comes too late has IPv6 alone, which is enough, and it is said.
func (s *terrain) poolExhausted(t *testing.T) {
	without := ""
	for _, name := range []string{"a-1", "a-2", "a-home"} {
		v := s.worker("a", name)
		if v.Lease == nil || v.Lease.Number == 0 {
			t.Fatalf("%s has %+v", name, v.Lease)
		}
		if !v.Lease.IPv4.IsValid() {
			without += name
		}
	}
	if s.front[without].id == "" {
		t.Fatalf("workers without IPv4: %q", without)
	}
	s.asks(without, "front")
	if i := s.instances("shop")[s.front[without].id]; len(i.Addrs) != 1 {
		t.Errorf("its instance has %v", i.Addrs)
	}
	t.Logf("without IPv4: %s", without)
	eventually(t, 10*time.Second, "verge status says that a worker has no IPv4", func() error {
		said := s.output("a", "sh", "-c", programs.verge+" status --context "+s.Dir("a")+"/context.yaml; true")
		if !strings.Contains(said, "IPv4") {
			return errors.New(said)
		}
		return nil
	})
}

// withoutPorts: who serves nothing is in no route, and reaches others all the same.
func (s *terrain) withoutPorts(t *testing.T) {
	shop := s.instances("shop")
	tried := 0
	for id, from := range shop {
		for _, to := range shop {
			if !strings.HasPrefix(id, "shop.quiet.") || !strings.HasPrefix(to.ID, "shop.front.") || from.Cluster != to.Cluster || from.Worker == to.Worker {
				continue
			}
			for _, a := range to.Addrs {
				if a.Is4() && len(from.Addrs) == 1 {
					continue
				}
				tried++
				err := within(t, s.pid(id), func() error {
					c, err := net.DialTimeout("tcp", netip.AddrPortFrom(a, 80).String(), 5*time.Second)
					if err == nil {
						_ = c.Close() // nothing was written
					}
					return err
				})
				if err != nil {
					t.Errorf("from %s to %s at %s: %v", id, to.ID, a, err)
				}
			}
		}
	}
	if tried < 8 { // three workers reach each other in cluster a, two of them by IPv4 too
		t.Errorf("only %d ways were tried", tried)
	}
}

// spoofsAndScans: what an instance may not do is dropped, and counted.
func (s *terrain) spoofsAndScans(t *testing.T) {
	spy := s.pid("spy.main.0")
	before := s.refused("a-1")
	shop := s.instances("shop")

	// Addresses that are another's: of an instance beside it, and of nobody.
	victim := shop[s.front["a-1"].id].Addrs[0]
	err := within(t, spy, func() error {
		for _, a := range []string{victim.String(), "fd99::1"} {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			nla, err := netlink.ParseAddr(a + "/128")
			if err != nil {
				return err
			}
			nla.Flags = syscall.IFA_F_NODAD
			if err := netlink.AddrAdd(lo, nla); err != nil {
				return err
			}
			c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(a)}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.front["a-2"].addr, 80)))
			if err != nil {
				return err
			}
			for range 5 {
				if _, err := c.Write([]byte("x")); err != nil {
					return err
				}
			}
			if err := errors.Join(c.Close(), netlink.AddrDel(lo, nla)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	// Other applications, here and elsewhere; the ports of this worker and of others.
	var targets []string
	for _, i := range shop {
		for _, a := range i.Addrs {
			targets = append(targets, netip.AddrPortFrom(a, 80).String())
		}
	}
	resolvers := nameServers(t, spy)
	for _, port := range []int{22, 8474, 8480} {
		targets = append(targets, net.JoinHostPort(resolvers[0], fmt.Sprint(port)), net.JoinHostPort(s.Address("a-1").String(), fmt.Sprint(port)))
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, to := range targets {
		all.Go(func() {
			err := within(t, spy, func() error {
				c, err := net.DialTimeout("tcp", to, 700*time.Millisecond)
				if err == nil {
					_ = c.Close() // nothing was written
				}
				return err
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				t.Errorf("the spy was connected to %s", to)
			}
		})
	}
	all.Wait()
	after := s.refused("a-1")
	t.Logf("refused before %v, after %v; %d targets", before, after, len(targets))
	for _, reason := range []string{"spoofed", "isolated", "guarded"} {
		if after[reason] <= before[reason] {
			t.Errorf("%s: %d packets before, %d after", reason, before[reason], after[reason])
		}
	}
	if n := after["spoofed"] - before["spoofed"]; n < 10 {
		t.Errorf("%d of 10 spoofed packets were counted", n)
	}
	// The same by name: another application's is none that it may reach.
	at := netip.AddrPortFrom(s.instances("spy")["spy.main.0"].Addrs[0], 80).String()
	if got, err := s.fetch("a-1", at, "", "/get?within=2s&url=http://front.default.shop.default.verge.internal/whoami", 5*time.Second); err == nil {
		t.Errorf("the spy asked the shop: %s", got)
	}
	s.reach("a-1", "a-2")
}

// nameServers that an instance was given.
func nameServers(t *testing.T, pid int) []string {
	t.Helper()
	conf, err := dns.ClientConfigFromFile(fmt.Sprintf("/proc/%d/root/etc/resolv.conf", pid))
	if err != nil {
		t.Fatal(err)
	}
	return conf.Servers
}

// abusesNames: what the name server is asked by one instance does not keep it from
// answering another.
func (s *terrain) abusesNames(t *testing.T) {
	front, back := s.pid(s.front["a-1"].id), s.pid("shop.back.0")
	server := net.JoinHostPort(nameServers(t, front)[0], "53")
	dial := func(pid int) (c net.Conn) {
		t.Helper()
		if err := within(t, pid, func() (err error) { c, err = net.Dial("udp", server); return err }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(pid int, name string, kind uint16) (*dns.Msg, error) {
		q := new(dns.Msg)
		q.SetQuestion(name, kind)
		// As resolvers do: what is lost is asked again.
		for try := 0; ; try++ {
			m, _, err := (&dns.Client{Timeout: time.Second}).ExchangeWithConn(q, &dns.Conn{Conn: dial(pid)})
			if err == nil || try == 4 {
				return m, err
			}
		}
	}
	const in = ".default.shop.default.verge.internal."
	label := strings.Repeat("a", 63)
	long := label + "." + label + "." + label + "." + strings.Repeat("b", 255-1-3*64-len("verge.internal.")-2) + ".verge.internal."
	for _, c := range []struct {
		name    string
		kind    uint16
		code    int
		answers int
	}{
		{"front" + in, dns.TypeAAAA, dns.RcodeSuccess, 1},
		{"0.instance.front" + in, dns.TypeAAAA, dns.RcodeSuccess, 1},
		{"9.instance.front" + in, dns.TypeAAAA, dns.RcodeNameError, 0},
		{"nothing" + in, dns.TypeAAAA, dns.RcodeNameError, 0},
		{long, dns.TypeAAAA, dns.RcodeNameError, 0},
		{"front" + in, dns.TypeMX, dns.RcodeSuccess, 0},
		{"front" + in, dns.TypeTXT, dns.RcodeSuccess, 0},
		{"nothing" + in, dns.TypeMX, dns.RcodeNameError, 0},
	} {
		m, err := ask(front, c.name, c.kind)
		if err != nil || m.Rcode != c.code || len(m.Answer) != c.answers {
			t.Errorf("%s %s: %v, %v", dns.TypeToString[c.kind], c.name, err, m)
		}
	}
	// What is no question at all, and a flood of what nobody knows.
	c := dial(front)
	for _, junk := range [][]byte{{0}, make([]byte, 12), append(make([]byte, 11), make([]byte, 500)...), []byte(strings.Repeat("\xff", 600))} {
		if _, err := c.Write(junk); err != nil {
			t.Fatal(err)
		}
	}
	engine := 0
	for _, p := range processesOf(s.Dir("a-1")) {
		if rank(p) == 1 {
			engine = p.pid
		}
	}
	before := residentOf(t, engine)
	q := new(dns.Msg)
	q.SetQuestion("elsewhere.example.", dns.TypeA)
	b, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		_, _ = c.Write(b) // what the socket does not take is not asked
	}
	if m, err := ask(back, "front"+in, dns.TypeAAAA); err != nil || len(m.Answer) != 1 {
		t.Errorf("another instance during a flood: %v, %v", err, m)
	}
	s.asks("a-2", "front")
	after := residentOf(t, engine)
	t.Logf("the engine has %d KiB before and %d KiB after a flood", before, after)
	if after > before+32<<10 {
		t.Errorf("the engine had %d KiB and has %d KiB", before, after)
	}
	eventually(t, 5*time.Second, "who asked too much is answered again", func() error {
		_, err := ask(front, "front"+in, dns.TypeAAAA)
		return err
	})
}

// residentOf is the memory of a process, in KiB.
func residentOf(t *testing.T, pid int) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// worsen changes the links of a host to all others.
func (s *terrain) worsen(host string, latency time.Duration, loss float64) {
	s.t.Helper()
	d, share := api.Duration(latency), lab.Share(loss)
	for other := range s.File().Hosts {
		if other == host {
			continue
		}
		if _, err := s.Set(host, other, lab.LinkSpec{Latency: &d, Loss: &share}, false); err != nil {
			s.t.Fatal(err)
		}
	}
}

// badLinks: requests between workers succeed, however slowly, over links that lose
// much: all of one worker lose 20 %, all of another one, which is behind NAT, half.
func (s *terrain) badLinks(t *testing.T) {
	bad := map[string]float64{"a-2": 0.2, "b-home": 0.5}
	for host, loss := range bad {
		s.worsen(host, 250*time.Millisecond, loss)
	}
	var all sync.WaitGroup
	for host, loss := range bad {
		for _, way := range [][2]string{{"a-1", host}, {host, "a-1"}} {
			from, to := way[0], way[1]
			begin := time.Now()
			ctx, done := context.WithTimeout(t.Context(), slack*30*time.Second)
			var tries atomic.Int32
			var why atomic.Pointer[error]
			var once sync.Once
			// A client gives up at some time, and asks again. At half, a connection and an
			// answer within its time are luck, so there are several.
			for range 4 {
				all.Go(func() {
					for ctx.Err() == nil {
						tries.Add(1)
						text, err := s.ask(from, "http://"+net.JoinHostPort(s.front[to].addr.String(), "80")+"/whoami", 6*time.Second)
						if err == nil && !strings.Contains(text, s.front[to].id) {
							err = errors.New(text)
						}
						if err != nil {
							why.Store(&err)
							continue
						}
						once.Do(func() {
							t.Logf("250 ms each way, %.0f %% lost: a request from %s to %s took %s, the %d. try", 100*loss, from, to, time.Since(begin).Round(10*time.Millisecond), tries.Load())
							done()
						})
					}
				})
			}
			all.Go(func() {
				<-ctx.Done()
				if !errors.Is(ctx.Err(), context.Canceled) {
					t.Errorf("from %s to %s: %v", from, to, *why.Load())
				}
				done()
			})
		}
	}
	all.Wait()
	for host := range bad {
		s.worsen(host, time.Millisecond, 0)
	}
	for host := range bad {
		s.reach("a-1", host)
	}
}

// workerDies: a whole machine is gone under load. What goes to the others is not
// hurt; what was under way to it ends.
func (s *terrain) workerDies(t *testing.T) {
	s.reach("a-1", "a-2")
	type failed struct {
		begun, ended time.Time
		err          error
	}
	var mu sync.Mutex
	good := map[string]int{}
	bad := map[string][]failed{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	load := func(what string) {
		all.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				_, err := s.ask("a-1", "http://"+what+"/whoami", 30*time.Second)
				mu.Lock()
				if err == nil {
					good[what]++
				} else {
					bad[what] = append(bad[what], failed{begun, time.Now(), err})
				}
				mu.Unlock()
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	healthy := []string{s.name("a-1"), s.name("a-home"), s.name("b-home"), "back"}
	for _, name := range healthy {
		load(name)
	}
	for range 4 {
		load("front")
	}
	ended := make(chan time.Time, 1)
	go func() {
		// An answer without end from the one that dies.
		_, _ = s.ask("a-1", "http://"+s.name("a-2")+"/stream", 2*time.Minute)
		ended <- time.Now()
	}()
	eventually(t, 10*time.Second, "all are asked", func() error {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range append([]string{"front"}, healthy...) {
			if good[name] < 10 {
				return fmt.Errorf("%v", good)
			}
		}
		return nil
	})
	before := time.Now()
	cut := true
	for other := range s.File().Hosts { // what it still sends while it dies is lost
		if other != "a-2" {
			if _, err := s.Set("a-2", other, lab.LinkSpec{Cut: &cut}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.PowerOff("a-2"); err != nil {
		t.Fatal(err)
	}
	off := time.Now()
	select {
	case at := <-ended:
		t.Logf("a request under way to the dead worker ended %s after its end", at.Sub(off).Round(10*time.Millisecond))
	case <-time.After(time.Minute):
		t.Error("a request under way to the dead worker hangs")
	}
	// From some point on nothing fails.
	calm := func() (last time.Time, n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range bad["front"] {
			if f.begun.After(last) {
				last = f.begun
			}
		}
		return last, len(bad["front"])
	}
	eventually(t, 20*time.Second, "no request fails any more", func() error {
		if last, n := calm(); n > 0 && time.Since(last) < 3*time.Second {
			return fmt.Errorf("the last one began %s after its end", last.Sub(off))
		}
		return nil
	})
	cancel()
	all.Wait()
	for _, name := range healthy {
		if n := len(bad[name]); n > 0 {
			t.Errorf("%s: %d of %d requests failed: %v", name, n, n+good[name], bad[name][0].err)
		}
	}
	last, n := calm()
	longest := time.Duration(0)
	for _, f := range bad["front"] {
		longest = max(longest, f.ended.Sub(f.begun))
		if f.ended.Before(before) {
			t.Errorf("a request failed before: %v", f.err)
		}
	}
	t.Logf("%d of %d requests to any replica failed, the last one begun %s after the worker's end, the slowest after %s",
		n, n+good["front"], last.Sub(off).Round(10*time.Millisecond), longest.Round(10*time.Millisecond))

	cut = false
	for other := range s.File().Hosts {
		if other != "a-2" {
			if _, err := s.Set("a-2", other, lab.LinkSpec{Cut: &cut}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Boot("a-2"); err != nil {
		t.Fatal(err)
	}
	s.holds("shop")
	s.fronts()
	s.reach("a-1", "a-2")
}

// fronts notes where each front is now.
func (s *terrain) fronts() {
	s.t.Helper()
	for id, i := range s.instances("shop") {
		if i.Service == "front" && len(i.Addrs) > 0 {
			s.front[i.Worker] = replica{id, i.Addrs[0]}
		}
	}
}

// orchestratorsGone: with all of them dead, and the relay with the root, what is
// known goes on, and a worker that comes back from a power cut does, too.
func (s *terrain) orchestratorsGone(t *testing.T) {
	pids := s.pidsOf("shop")
	for id, i := range s.instances("shop") {
		if i.Worker == "a-1" {
			delete(pids, id) // it ends with its worker
		}
	}
	for _, host := range []string{"root", "a", "b"} {
		if err := s.PowerOff(host); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []string{"a-2", "a-home", "b-home"} {
		s.reach("a-1", to)
	}
	s.asks("a-2", "front")
	if err := s.PowerOff("a-1"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := s.Boot("a-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "its own services reach each other", func() error {
		got, err := s.who("a-1", "back", 5*time.Second)
		if err == nil {
			err = differs("who answers", got, "shop.back.0")
		}
		return err
	})
	t.Logf("its own services reach each other %s after its start", time.Since(begin).Round(10*time.Millisecond))
	s.reach("a-1", "a-2")
	s.reach("a-2", "a-1")
	t.Logf("and those on another worker after %s", time.Since(begin).Round(10*time.Millisecond))
	eventually(t, 20*time.Second, "its gateway answers", func() error {
		_, err := s.fetch("a-1", "127.0.0.1:8480", "front.test", "/whoami", requestTimeout)
		return err
	})
	for _, host := range []string{"root", "a", "b"} {
		if pids, err := s.Processes(host); err != nil || len(pids) > 0 {
			t.Fatalf("%s runs: nothing was tested (%v)", host, err)
		}
		if err := s.Boot(host); err != nil {
			t.Fatal(err)
		}
	}
	s.holds("shop")
	now := s.pidsOf("shop")
	for id, pid := range pids {
		if now[id] != pid {
			t.Errorf("%s was process %d and is %d", id, pid, now[id])
		}
	}
	s.reach("a-home", "b-home")
}

func (s *terrain) pidsOf(app string) map[string]int {
	out := map[string]int{}
	for id, r := range runningIn(s.t, s.Dir("")) {
		if strings.HasPrefix(id, app+".") {
			out[id] = r.pid
		}
	}
	return out
}
