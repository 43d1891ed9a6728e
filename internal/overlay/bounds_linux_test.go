package overlay

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
)

// What is on the wire of a packet that is full, and of it the program's.
const (
	wholePacket = 14 + 1280
	itsPayload  = 1280 - 40 - 20 - 12
)

// throughput is what a connection between two instances carries in bits per second,
// with its headers, once what may pass at once has passed.
func (w *world) throughput(from, to string, port uint16) float64 {
	w.t.Helper()
	const atOnce, size = 256 << 10, 1 << 20
	at := netip.AddrPortFrom(w.at[to].Addrs[0], port)
	var ln net.Listener
	if err := overlaytest.In(w.t, w.at[to].NetNS, func() (err error) {
		ln, err = net.Listen("tcp", at.String())
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	defer ln.Close()
	sent := make(chan error, 1)
	go func() {
		sent <- overlaytest.In(w.t, w.at[from].NetNS, func() error {
			c, err := net.Dial("tcp", at.String())
			if err != nil {
				return err
			}
			_, err = c.Write(make([]byte, atOnce+size))
			return errors.Join(err, c.Close())
		})
	}()
	c, err := ln.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.CopyN(io.Discard, c, atOnce); err != nil {
		w.t.Fatal(err)
	}
	began := time.Now()
	n, err := io.Copy(io.Discard, c)
	took := time.Since(began)
	if err := errors.Join(err, <-sent); err != nil || n != size {
		w.t.Fatalf("%d bytes, %v", n, err)
	}
	return float64(n) * 8 * wholePacket / itsPayload / took.Seconds()
}

// An instance receives and sends what its bounds say, within a tenth, also after
// another engine took it over.
func TestBandwidth(t *testing.T) {
	w := newWorld(t)
	w.set()
	in, out := int64(16_000_000), int64(24_000_000)
	bound := func() {
		t.Helper()
		a, err := w.n.Attach(Instance{ID: "shop.db.0", App: "shop", Namespace: "default", AppNumber: 1, In: in,
			Out: out, Had: w.at["shop.db.0"].Place})
		if err != nil {
			t.Fatal(err)
		}
		w.at["shop.db.0"] = a
	}
	bound()
	w.attach("shop.web.0", 1)
	is := func(what, from, to string, want int64) {
		t.Helper()
		var got float64
		for range 5 { // the processor may be late; what is too fast is so at once
			got = w.throughput(from, to, 9000) / float64(want)
			if got > 1.1 {
				break
			}
			if got > 0.9 {
				return
			}
		}
		t.Errorf("%s: %.2f of what was asked for", what, got)
	}
	is("in", "shop.web.0", "shop.db.0", in)
	is("out", "shop.db.0", "shop.web.0", out)

	w.n.Close()
	is("in, without an engine", "shop.web.0", "shop.db.0", in)
	w.open()
	w.set()
	for id, app := range map[string]uint32{"shop.db.0": 1, "shop.web.0": 1} {
		if !w.n.Keep(Instance{ID: id, App: "shop", Namespace: "default", AppNumber: app, Had: w.at[id].Place}) {
			t.Fatalf("%s is not known again", id)
		}
	}
	if err := w.n.Settle(); err != nil {
		t.Fatal(err)
	}
	out /= 2
	bound()
	w.attach("shop.web.0", 1)
	is("in, another engine", "shop.web.0", "shop.db.0", in)
	is("out, another bound", "shop.db.0", "shop.web.0", out)

	had := in
	in, out = 0, 0
	bound()
	if got := w.throughput("shop.web.0", "shop.db.0", 9000); got < 1.5*float64(had) {
		t.Errorf("in, no bound any more: %.0f bit/s, it had %d", got, had)
	}
}

// Services of datagrams: addresses, turns, names, isolation, and what becomes of a
// conversation whose other end is gone.
func TestDatagrams(t *testing.T) {
	w := newWorld(t)
	w.set()
	ports := []api.Port{{Name: "queries", Protocol: api.UDP}}
	for _, id := range []string{"shop.web.0", "shop.db.0", "shop.db.1"} {
		w.attach(id, 1)
		w.serve(id, 8000)
	}
	w.attach("other.spy.0", 2)
	r := routeTo("shop", 1, "db", "shop.db.0", "shop.db.1")
	r.Ports = ports
	w.set(r)
	to6 := netip.AddrPortFrom(w.addr6("shop.web.0", "db"), 8000)
	addrs, err := w.n.ServiceAddrs("shop", "default", "db", ports)
	if err != nil {
		t.Fatal(err)
	}
	to4 := netip.MustParseAddrPort(addrs["queries"])
	for _, to := range []netip.AddrPort{to6, to4} {
		got := map[string]int{}
		for range 10 {
			said, err := overlaytest.Ask(t, w.at["shop.web.0"].NetNS, "udp", to)
			if err != nil {
				t.Fatal(to, err)
			}
			got[said]++
		}
		if got["shop.db.0"] != 5 || got["shop.db.1"] != 5 {
			t.Errorf("%s: %v instead of five each", to, got)
		}
		if !overlaytest.Refused(t, w.at["shop.web.0"].NetNS, "tcp", to) {
			t.Errorf("%s takes connections, too", to)
		}
		if !overlaytest.Refused(t, w.at["other.spy.0"].NetNS, "udp", to) {
			t.Errorf("%s answers another application", to)
		}
	}
	m := w.lookup("shop.web.0", "_queries._udp.db", dns.TypeSRV)
	if len(m.Answer) != 1 || m.Answer[0].(*dns.SRV).Port != 8000 {
		t.Errorf("SRV: %v", m)
	}
	if m := w.lookup("shop.web.0", "_queries._tcp.db", dns.TypeSRV); m.Rcode != dns.RcodeNameError {
		t.Errorf("SRV of the other protocol: %v", m)
	}
	r.Export = true
	w.set(r)
	if said, err := overlaytest.Ask(t, w.at["other.spy.0"].NetNS, "udp", to6); err != nil {
		t.Errorf("exported: %q, %v", said, err)
	}

	// By the policy nobody asked for yet, the first datagram is answered, too.
	first := netip.AddrPortFrom(w.n.space.Service(1, "db", api.PolicyRandom), 8000)
	if said, err := overlaytest.Ask(t, w.at["shop.web.0"].NetNS, "udp", first); err != nil {
		t.Errorf("the first datagram: %q, %v", said, err)
	}

	// A conversation goes on with the same one until that is gone.
	var c net.Conn
	if err := overlaytest.In(t, w.at["shop.web.0"].NetNS, func() (err error) {
		c, err = net.Dial("udp", to6.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func() string {
		t.Helper()
		var b [64]byte
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, err := c.Write([]byte("?"))
		n := 0
		if err == nil {
			n, err = c.Read(b[:])
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	with := ask()
	for range 3 {
		if said := ask(); said != with {
			t.Fatalf("%s answers instead of %s", said, with)
		}
	}
	if err := w.n.Detach(with); err != nil {
		t.Fatal(err)
	}
	delete(w.at, with)
	deadline := time.Now().Add(5 * time.Second)
	for said := with; said == with; {
		if time.Now().After(deadline) {
			t.Fatalf("%s is gone and nobody else answers", with)
		}
		_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond))
		var b [64]byte
		if _, err := c.Write([]byte("?")); err != nil {
			continue // an earlier one was refused
		}
		if n, err := c.Read(b[:]); err == nil {
			said = string(b[:n])
		}
	}
}
