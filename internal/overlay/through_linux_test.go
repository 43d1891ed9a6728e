package overlay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/wire"
)

// inherited are sockets that a process has from the one before.
type inherited struct {
	mu   sync.Mutex
	open map[string]*os.File
}

func (x *inherited) Listen(ctx context.Context, lc net.ListenConfig, name, network, address string) (net.Listener,
	error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f := x.open[name+address]; f != nil {
		return net.FileListener(f)
	}
	ln, err := lc.Listen(ctx, network, address)
	if err == nil {
		x.open[name+address], err = ln.(*net.TCPListener).File()
	}
	return ln, err
}

func (x *inherited) ListenPacket(ctx context.Context, lc net.ListenConfig, name, network,
	address string) (net.PacketConn, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f := x.open[name+address]; f != nil {
		return net.FilePacketConn(f)
	}
	c, err := lc.ListenPacket(ctx, network, address)
	if err == nil {
		x.open[name+address], err = c.(*net.UDPConn).File()
	}
	return c, err
}

func (x *inherited) close() {
	for _, f := range x.open {
		_ = f.Close() // nothing was written to it
	}
}

// outOf are sockets of a process that is out of descriptors for some time.
type outOf struct {
	*inherited
	none atomic.Bool
}

func (x *outOf) Listen(ctx context.Context, lc net.ListenConfig, name, network, address string) (net.Listener, error) {
	if x.none.Load() {
		return nil, unix.EMFILE
	}
	return x.inherited.Listen(ctx, lc, name, network, address)
}

// A port of the router that could not be opened is opened when that can be, although no
// route has changed since.
func TestThroughIsOpenedInTheEnd(t *testing.T) {
	sockets := &outOf{inherited: &inherited{open: map[string]*os.File{}}}
	defer sockets.close()
	opened := make(chan struct{}, 2) // one for each address
	w := newWorldWith(t, func(o *Options) {
		o.Listeners = sockets
		o.Through = func(ln net.Listener, _, _, _ string) {
			opened <- struct{}{}
			go func() {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "router")
				_ = c.Close()
			}()
		}
	})
	w.set()
	w.attach("shop.web.0", 1)
	r := routeTo("shop", 1, "db")
	r.Endpoints = []wire.Endpoint{{Instance: "shop.db.1", Cluster: "c", Worker: "far", Address: "192.0.2.1:7000"}}
	sockets.none.Store(true)
	w.set(r)
	w.n.mu.Lock()
	port := w.n.through[throughKey{"shop", "db", "http"}]
	w.n.mu.Unlock()
	if port == nil || port.at4.IsValid() {
		t.Fatalf("the port of the router: %+v", port)
	}
	sockets.none.Store(false)
	for range cap(opened) {
		<-opened
	}
	w.n.mu.Lock()   // which is held until the rules lead there
	w.n.mu.Unlock() //nolint:staticcheck // as above
	if said, err := w.ask("shop.web.0", w.service4("shop", "db")); err != nil || said != "router" {
		t.Errorf("%q, %v, want an answer of the router", said, err)
	}
}

// What goes through the router until there is a path is refused at no moment: not while
// the rules change, and not while another process takes the network over.
func TestThroughRefusesNothing(t *testing.T) {
	var reached atomic.Bool
	sockets := &inherited{open: map[string]*os.File{}}
	defer sockets.close()
	w := newWorldWith(t, func(o *Options) {
		o.Listeners = sockets
		o.Reached = func(*wire.Endpoint) bool { return reached.Load() }
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
	w.attach("shop.db.0", 1) // in the place of one on another worker
	w.serve("shop.db.0", 80)
	r := routeTo("shop", 1, "db")
	r.Endpoints = []wire.Endpoint{{Instance: "shop.db.1", Cluster: "c", Worker: "far", Address: "192.0.2.1:7000",
		Addrs: w.at["shop.db.0"].Addrs}}
	become := func(now bool, want string) {
		t.Helper()
		reached.Store(now)
		w.set(r)
		if said, err := w.ask("shop.web.0", w.service4("shop", "db")); err != nil || said != want {
			t.Fatalf("%q, %v, want %s", said, err, want)
		}
	}
	k := throughKey{"shop", "db", "http"}
	port := func() netip.AddrPort {
		t.Helper()
		w.n.mu.Lock()
		defer w.n.mu.Unlock()
		p := w.n.through[k]
		if p == nil {
			t.Fatal("the router has no port for it")
		}
		return p.at4
	}
	open := func(at netip.AddrPort) error {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		b, err := io.ReadAll(c)
		_ = c.Close()
		if err == nil && string(b) != "router" {
			err = fmt.Errorf("it says %q", b)
		}
		return err
	}
	become(false, "router")
	at := port()
	become(true, "shop.db.0")
	if err := open(at); err != nil {
		t.Errorf("what was sent to the router before there was a path is refused: %v", err)
	}
	become(false, "router")
	if now := port(); now != at {
		t.Errorf("the router's port was %s and is %s", at, now)
	}

	former := w.n
	former.Yield(true)
	w.open()
	if err := w.n.Set(w.net, []wire.Route{r}); err != nil {
		t.Fatal(err)
	}
	for id, a := range w.at {
		if !w.n.Keep(Instance{ID: id, App: "shop", Namespace: "default", AppNumber: 1, Had: a.Place}) {
			t.Errorf("%s is not known again", id)
		}
	}
	if err := w.n.Settle(); err != nil {
		t.Fatal(err)
	}
	if now := port(); now != at {
		t.Errorf("the former process had the port %s and this one has %s", at, now)
	}
	former.Close()
	if err := open(at); err != nil {
		t.Errorf("after the former process: %v", err)
	}

	become(true, "shop.db.0")
	w.n.mu.Lock()
	w.n.through[k].unused = time.Now().Add(-throughKept)
	w.n.mu.Unlock()
	sockets.close() // as in a process that has no copies of them
	w.n.Changed()
	for deadline := time.Now().Add(10 * time.Second); open(at) == nil; {
		if time.Now().After(deadline) {
			t.Fatalf("the router's port %s is open, and nothing leads there", at)
		}
	}
}

// A process that takes the network over refuses nothing that is for a worker to which there
// is no way but a path, until it has had the time to find that.
func TestPathsAreTrustedOver(t *testing.T) {
	w := newWorldWith(t, func(o *Options) {
		o.Reached = func(*wire.Endpoint) bool { return false }
	})
	w.set()
	w.attach("shop.web.0", 1)
	w.attach("shop.db.0", 1) // in the place of one behind NAT
	w.serve("shop.db.0", 80)
	r := routeTo("shop", 1, "db")
	r.Endpoints = []wire.Endpoint{{Instance: "shop.db.1", Cluster: "c", Worker: "far", Addrs: w.at["shop.db.0"].Addrs}}
	refused := func(when string) {
		t.Helper()
		w.set(r)
		if said, err := w.ask("shop.web.0", w.service4("shop", "db")); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("%s: %q, %v", when, said, err)
		}
	}
	refused("before there was a path")

	w.n.Close()
	w.open()
	if err := w.n.Set(w.net, []wire.Route{r}); err != nil {
		t.Fatal(err)
	}
	for id, a := range w.at {
		w.n.Keep(Instance{ID: id, App: "shop", Namespace: "default", AppNumber: 1, Had: a.Place})
	}
	if err := w.n.Settle(); err != nil {
		t.Fatal(err)
	}
	if said, err := w.ask("shop.web.0", w.service4("shop", "db")); err != nil || said != "shop.db.0" {
		t.Errorf("while the path is found again: %q, %v", said, err)
	}
	w.n.mu.Lock()
	w.n.trusted = time.Now()
	w.n.mu.Unlock()
	refused("when it was not found")
}
