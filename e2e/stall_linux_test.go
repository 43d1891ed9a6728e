package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A staller is a TCP proxy that makes a link as slow as one that loses packets.
// It loses none: to do that to a real link takes the rights of root, which is what
// TestLossyLinks has. It holds back what it reads, in pieces of the size of a
// packet: each is "lost" with a probability, and then waits as long as TCP waits
// before it sends a packet again (200 ms, twice as long each further time), with
// all that comes after it; one that is lost too often takes its connection with
// it, by a reset to both sides. A new connection waits in the same way. Unlike
// with real loss the kernels on both sides have a perfect network: they measure no
// loss, send nothing again and keep their windows open, and a connection is never
// dead on one side only.
type staller struct {
	listener net.Listener
	to       string
	percent  atomic.Int64
	cuts     atomic.Int64
	stalls   atomic.Int64

	work sync.WaitGroup
	stop context.CancelFunc
}

const (
	pieceSize   = 1448 // of a TCP segment on an Ethernet
	firstResend = 200 * time.Millisecond
	mostResends = 8
)

// newStaller takes connections at an address for another one, until t ends.
func newStaller(t *testing.T, at, to string) *staller {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", at))
	ctx, stop := context.WithCancel(context.Background())
	p := &staller{listener: l, to: to, stop: stop}
	p.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(ctx, c) })
		}
	})
	t.Cleanup(func() {
		stop()
		_ = l.Close() // nobody waits for it any more
		p.work.Wait()
	})
	return p
}

// lost is how long something takes that is lost with some probability; false if
// it never comes.
func (p *staller) lost() (time.Duration, bool) {
	var wait time.Duration
	for n := 0; rand.Int64N(100) < p.percent.Load(); n++ {
		if n == mostResends {
			return 0, false
		}
		wait += firstResend << n
	}
	return wait, true
}

// hold waits as long as a piece would be on its way; false: it never comes.
func (p *staller) hold(ctx context.Context) bool {
	wait, ok := p.lost()
	if !ok {
		p.cuts.Add(1)
		return false
	}
	if wait == 0 {
		return true
	}
	p.stalls.Add(1)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

func (p *staller) serve(ctx context.Context, from net.Conn) {
	reset := func(c net.Conn) {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // fails only on a closed connection
		}
		_ = c.Close()
	}
	defer reset(from)
	if !p.hold(ctx) {
		return
	}
	var d net.Dialer
	to, err := d.DialContext(ctx, "tcp", p.to)
	if err != nil {
		return // as the other side does
	}
	defer reset(to)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { reset(from); reset(to) })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			if !p.carry(ctx, way[0], way[1]) {
				cancel()
			}
		})
	}
	both.Wait()
}

// carry takes bytes from one side to the other until they end; false: they broke
// off.
func (p *staller) carry(ctx context.Context, from, to net.Conn) bool {
	piece := make([]byte, pieceSize)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if !p.hold(ctx) {
				return false
			}
			if _, err := to.Write(piece[:n]); err != nil {
				return false
			}
		}
		if errors.Is(err, io.EOF) {
			tcp, ok := to.(*net.TCPConn)
			return ok && tcp.CloseWrite() == nil
		}
		if err != nil {
			return false
		}
	}
}

// stallFor is how long links are so bad at most that nobody can promise an end.
const stallFor = 25 * time.Second

// TestStallingLinks is what TestLossyLinks is where nothing can be done to real
// links: it needs no rights. The links of a cluster to its root and of its workers
// to it go through stallers. Deploying takes longer, nothing is lost, what runs
// runs on, and requests are answered.
func TestStallingLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel() // it waits much more than it computes
	w := emptyWorld(t, newDir(t))
	// Every address of the loopback is this machine: nodes are told one at which
	// there is a proxy for each port.
	var links []*staller
	behind := func(x *tier, host string) {
		for i, arg := range x.args {
			if arg == "--advertise" {
				x.args[i+1] = host
			}
		}
		for n, addr := range []string{x.api, x.link} {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				t.Fatal(err)
			}
			p := newStaller(t, net.JoinHostPort(host, port), addr)
			if n == 1 { // people are not to be held up
				links = append(links, p)
			}
		}
	}
	w.root = w.newTier("root", "root")
	behind(w.root, "127.77.0.1")
	w.root.start()
	w.root.answers()
	edge := w.addClusterBy("edge", func(x *tier) { behind(x, "127.77.0.2") })
	edge.answers()
	w.addWorker("edge", "edge-1")
	w.addWorker("edge", "edge-2")
	w.allReady()
	w.root.apply(plain("same", "0", 2, 100))
	pids := w.pids("same")
	for _, percent := range []int64{20, 50} {
		w.run(fmt.Sprintf("%d%%", percent), func(t *testing.T) {
			traffic := sendTraffic(t, "same.test", w.worker["edge-1"].gateway, w.worker["edge-2"].gateway)
			for _, p := range links {
				p.percent.Store(percent)
			}
			begin := time.Now()
			client := w.root.client()
			if _, err := client.Applications.Apply(t.Context(), []byte(plain("lossy", fmt.Sprint(percent), 2, 100)), false); err != nil {
				t.Fatal(err)
			}
			holds := func() error {
				v, err := client.Applications.Get(context.Background(), "lossy")
				if err == nil && !v.Holds {
					err = errors.New(v.Message)
				}
				if err != nil {
					return err
				}
				for _, p := range processesOf(w.dir) {
					if p.env["VERGE_APP"] == "lossy" && filepath.Base(p.args[0]) == "testprogram" && p.env["MARK"] != fmt.Sprint(percent) {
						err = fmt.Errorf("%s runs with mark %s", p.env["VERGE_INSTANCE"], p.env["MARK"])
					}
				}
				return err
			}
			// With half of all held up it may have to wait for better links.
			if percent >= 50 && await(stallFor, holds) != nil {
				for _, p := range links {
					p.percent.Store(0)
				}
			}
			eventually(t, 2*time.Minute, "it holds", holds)
			took := time.Since(begin)
			var stalls, cuts int64
			for _, p := range links {
				p.percent.Store(0)
				stalls, cuts = stalls+p.stalls.Swap(0), cuts+p.cuts.Swap(0)
			}
			if stalls == 0 {
				t.Error("nothing was held up")
			}
			w.allReady()
			w.root.holds("same", time.Minute)
			if now := w.pids("same"); fmt.Sprint(now) != fmt.Sprint(pids) {
				t.Errorf("instances were %v and are %v", pids, now)
			}
			traffic.noneFailed(t)
			t.Logf("deployed after %s; %d pieces were held up, %d connections cut", took.Round(time.Millisecond), stalls, cuts)
		})
	}
	if said := edge.text() + w.root.text(); strings.Contains(said, "panic") {
		t.Errorf("a panic:\n%s", said)
	}
}
