package overlay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/wire"
)

// A process that takes the network over writes the ruleset anew. A connection that begins at
// that moment may meet the former translation and the new rules, or the other way round: it
// is not refused for that.
func TestWhatBeginsWhileTheRulesetIsWritten(t *testing.T) {
	sockets := &inherited{open: map[string]*os.File{}}
	defer sockets.close()
	w := newWorldWith(t, func(o *Options) {
		o.Listeners = sockets
		o.Reached = func(*wire.Endpoint) bool { return false }
		o.Through = func(ln net.Listener, _, _, _ string) {
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(c, "router")
					_ = c.Close()
				}
			}()
		}
	})
	w.set()
	w.attach("shop.web.0", 1)
	r := routeTo("shop", 1, "db")
	r.Endpoints = []wire.Endpoint{{Instance: "shop.db.1", Cluster: "c", Worker: "far", Address: "192.0.2.1:7000"}}
	w.set(r)
	to := w.service4("shop", "db")
	if said, err := w.ask("shop.web.0", to); err != nil || said != "router" {
		t.Fatal(said, err)
	}
	ends := time.Now().Add(3 * time.Second)
	var all sync.WaitGroup
	var made, refused atomic.Int64
	for range 4 {
		all.Go(func() {
			err := overlaytest.In(t, w.at["shop.web.0"].NetNS, func() error {
				for time.Now().Before(ends) {
					n := made.Add(1)
					c, err := net.DialTimeout("tcp", to, 5*time.Second)
					if errors.Is(err, syscall.ECONNREFUSED) {
						refused.Add(1)
						continue
					}
					if err != nil {
						return fmt.Errorf("connection %d: %w", n, err)
					}
					_ = c.(*net.TCPConn).SetLinger(0)
					_ = c.Close()
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	written := 0
	for ; time.Now().Before(ends); written++ {
		w.n.table.Forget()
		w.n.Changed()
		w.n.mu.Lock()
		if err := w.n.applyLocked(); err != nil {
			t.Error(err)
		}
		w.n.mu.Unlock()
	}
	all.Wait()
	// Where the former translation met the new rules, one of 15 was refused. On a busy machine one
	// of 10,000 is still, and one of 25,000 while nothing is written. A drop in place of the reset
	// that the rules answer changes nothing, so it is not theirs; the cause is not known.
	if n := refused.Load(); n*100 > made.Load() {
		t.Errorf("%d of %d connections were refused", n, made.Load())
	}
	t.Logf("%d of %d connections were refused", refused.Load(), made.Load())
	t.Logf("it was written %d times; %d packets were sent back", written, w.n.tun.Known.Load())
}
