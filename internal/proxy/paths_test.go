package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// wireBetween passes TCP connections on until it is cut: then nothing comes
// through, nothing new is taken, and nobody is told.
type wireBetween struct {
	net.Listener
	cut atomic.Bool
}

func newWire(t *testing.T, to string) *wireBetween {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w := &wireBetween{Listener: ln}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	pass := func(dst, src net.Conn) {
		buf := make([]byte, 4096)
		for {
			n, err := src.Read(buf)
			if w.cut.Load() {
				return
			}
			if n > 0 {
				_, _ = dst.Write(buf[:n])
			}
			if err != nil {
				_ = dst.Close()
				return
			}
		}
	}
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, c, d)
			mu.Unlock()
			all.Go(func() { pass(d, c) })
			all.Go(func() { pass(c, d) })
		}
	})
	return w
}

// echoes says whether a connection still works.
func echoes(c net.Conn) error {
	if _, err := io.WriteString(c, "x\n"); err != nil {
		return err
	}
	_, err := bufio.NewReaderSize(c, 16).ReadString('\n')
	return err
}

// A connection to a worker that its cluster has given up is cut when the worker
// does not answer; one to a worker that answers stays, whatever the routes say.
func TestConnectionsToTheDeadAreCut(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	here, far := newWorker(t, ca, "here", nil), newWorker(t, ca, "far", nil)
	far.addGreeter(t, "app.web.0")
	line := newWire(t, far.DataAddr())
	e := far.endpoint("app.web.0")
	e.Address = line.Addr().String()
	here.SetRoutes(webRoutes(e))
	c, _, err := greetFrom(here.addr(t, "tcp"))
	must(t, err)
	defer func() { _ = c.Close() }()

	here.SetRoutes(webRoutes()) // it drains, say
	eventually(t, "it was looked after", func() bool { return here.paths.Doubts() == 0 })
	must(t, echoes(c))

	here.SetRoutes(webRoutes(e))
	line.cut.Store(true)
	must(t, line.Close())
	here.SetRoutes(webRoutes())
	if _, err := io.Copy(io.Discard, c); err == nil {
		t.Error("it ended as if all were well")
	} else if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		t.Error("the connection to a dead worker was not cut")
	}
	eventually(t, "no connection is counted any more", func() bool { return len(here.paths.All()) == 0 })
}

// Who is refused from now on loses what is open, in both directions.
func TestConnectionsOfTheRevokedAreCut(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var revoked atomic.Bool
	here := newWorker(t, ca, "here", func(o *Options) {
		o.PeerAllowed = func(cs tls.ConnectionState) error {
			if revoked.Load() {
				return errors.New("its key was revoked")
			}
			return workersOnly(cs)
		}
	})
	far := newWorker(t, ca, "far", nil)
	here.addGreeter(t, "app.web.0")
	far.addGreeter(t, "app.web.1")
	here.SetRoutes(webRoutes(far.endpoint("app.web.1")))
	far.SetRoutes(webRoutes(here.endpoint("app.web.0")))
	out, _, err := greetFrom(here.addr(t, "tcp"))
	must(t, err)
	in, _, err := greetFrom(far.addr(t, "tcp"))
	must(t, err)
	here.PeersChanged()
	must(t, echoes(out))
	must(t, echoes(in))
	revoked.Store(true)
	here.PeersChanged()
	for name, c := range map[string]net.Conn{"to": out, "from": in} {
		if _, err := io.Copy(io.Discard, c); err == nil {
			t.Errorf("a connection %s the revoked ended as if all were well", name)
		}
		_ = c.Close()
	}
	if _, _, err := greetFrom(here.addr(t, "tcp")); err == nil {
		t.Error("a new one is opened")
	}
}

func webRoutes(endpoints ...wire.Endpoint) []wire.Route { return []wire.Route{webRoute(endpoints...)} }
