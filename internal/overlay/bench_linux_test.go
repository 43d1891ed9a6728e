package overlay

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
)

// BenchmarkService compares a local replica at its own address with the same by the
// service's address, and a service of nine replicas with one of one: for messages
// over an open connection, and for connections of their own.
func BenchmarkService(b *testing.B) {
	w := newWorld(b)
	w.set()
	w.attach("shop.web.0", 1)
	var nine []string
	for i := range 9 {
		id := fmt.Sprintf("shop.db.%d", i)
		nine = append(nine, id)
		w.attach(id, 1)
		echo(b, w.at[id])
	}
	w.set(routeTo("shop", 1, "db", nine...), routeTo("shop", 1, "one", nine[:1]...))
	service := func(name string) netip.AddrPort {
		return netip.AddrPortFrom(w.n.space.Service(1, name, api.PolicyRoundRobin), 80)
	}
	own := netip.AddrPortFrom(w.at[nine[0]].Addrs[0], 80)
	for _, c := range []struct {
		name             string
		reference, tried netip.AddrPort
	}{{"service", own, service("one")}, {"nine", service("one"), service("db")}} {
		b.Run(c.name+"/message", func(b *testing.B) {
			overlaytest.Compare(b, messages(b, w, c.reference), messages(b, w, c.tried))
		})
		b.Run(c.name+"/connection", func(b *testing.B) {
			overlaytest.Compare(b, connections(b, w, c.reference), connections(b, w, c.tried))
		})
	}
}

// messages exchanges some over nine open connections, of which a service of nine has
// each with another replica.
func messages(b *testing.B, w *world, to netip.AddrPort) func() overlaytest.Cost {
	var conns []net.Conn
	for range 9 {
		c := dial(b, w, to)
		b.Cleanup(func() { _ = c.Close() })
		conns = append(conns, c)
	}
	return func() overlaytest.Cost {
		began, cpu := time.Now(), overlaytest.CPU()
		for i := range 198 {
			exchange(b, conns[i%len(conns)])
		}
		return overlaytest.Cost{Took: time.Since(began), CPU: overlaytest.CPU() - cpu}
	}
}

// connections makes some, with one message each.
func connections(b *testing.B, w *world, to netip.AddrPort) func() overlaytest.Cost {
	return func() (out overlaytest.Cost) {
		err := overlaytest.In(b, w.at["shop.web.0"].NetNS, func() error {
			began, cpu := time.Now(), overlaytest.CPU()
			for range 45 {
				conn, err := net.Dial("tcp", to.String())
				if err != nil {
					return err
				}
				exchange(b, conn)
				_ = conn.(*net.TCPConn).SetLinger(0) // no port is used up
				_ = conn.Close()
			}
			out = overlaytest.Cost{Took: time.Since(began), CPU: overlaytest.CPU() - cpu}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
}

func echo(b *testing.B, a Attachment) {
	b.Helper()
	var ln net.Listener
	if err := overlaytest.In(b, a.NetNS, func() (err error) {
		ln, err = net.Listen("tcp", "[::]:80")
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = echoed(c), c.Close() }()
		}
	}()
}

func echoed(c net.Conn) error {
	var m [64]byte
	for {
		if _, err := io.ReadFull(c, m[:]); err != nil {
			return err
		}
		if _, err := c.Write(m[:]); err != nil {
			return err
		}
	}
}

func dial(b *testing.B, w *world, to netip.AddrPort) (c net.Conn) {
	b.Helper()
	if err := overlaytest.In(b, w.at["shop.web.0"].NetNS, func() (err error) {
		c, err = net.Dial("tcp", to.String())
		return err
	}); err != nil {
		b.Fatal(err)
	}
	return c
}

func exchange(b *testing.B, c net.Conn) {
	b.Helper()
	var m [64]byte
	if _, err := c.Write(m[:]); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(c, m[:]); err != nil {
		b.Fatal(err)
	}
}
