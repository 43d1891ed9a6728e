package overlay

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
)

// BenchmarkRoundTrip compares the ways to a local replica: at its own address, by
// the service's address, and by that of a service of nine; both for one message over
// an open connection and for a connection of its own.
func BenchmarkRoundTrip(b *testing.B) {
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
	for _, c := range []struct {
		name string
		to   netip.AddrPort
	}{{"direct", netip.AddrPortFrom(w.at[nine[0]].Addrs[0], 80)}, {"service", service("one")}, {"nine", service("db")}} {
		b.Run("message/"+c.name, func(b *testing.B) {
			conn := dial(b, w, c.to)
			defer conn.Close()
			for b.Loop() {
				exchange(b, conn)
			}
		})
		b.Run("connection/"+c.name, func(b *testing.B) {
			err := overlaytest.In(b, w.at["shop.web.0"].NetNS, func() error {
				for b.Loop() {
					conn, err := net.Dial("tcp", c.to.String())
					if err != nil {
						return err
					}
					exchange(b, conn)
					_ = conn.(*net.TCPConn).SetLinger(0) // no port is used up
					_ = conn.Close()
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
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
