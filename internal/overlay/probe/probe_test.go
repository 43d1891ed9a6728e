package probe

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"
)

func start(t *testing.T) (*Prober, netip.AddrPort) {
	t.Helper()
	p, err := open(netip.MustParseAddrPort("127.0.0.1:0"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, p.conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestAskAndMeasure(t *testing.T) {
	a, _ := start(t)
	b, at := start(t)
	rtt, err := a.ask(t.Context(), at, size)
	if err != nil || rtt <= 0 {
		t.Fatal(rtt, err)
	}
	if _, err := a.ask(t.Context(), at, 1400); err != nil {
		t.Fatal("a long question:", err)
	}
	got := a.measure(t.Context(), []netip.AddrPort{at})
	if got[at.Addr()] <= 0 {
		t.Fatalf("measured %v", got)
	}
	if s := a.Stats(); s.Asked != 2+tries || s.Answered != s.Asked {
		t.Errorf("who asks counts %+v", s)
	}
	if s := b.Stats(); s.Served != 2+tries {
		t.Errorf("who answers counts %+v", s)
	}
}

func TestNoAnswerEndsWithTheContext(t *testing.T) {
	a, _ := start(t)
	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.ask(ctx, silent.LocalAddr().(*net.UDPAddr).AddrPort(), size); err == nil {
		t.Fatal("an answer from nobody")
	}
	if len(a.wait) != 0 {
		t.Fatal("the question is still waited for")
	}
}

// An answer that nobody waits for, of another's or malformed, is dropped; nothing
// but a question is answered.
func TestStrangersAreDropped(t *testing.T) {
	a, at := start(t)
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	tell := make([]byte, size)
	copy(tell, magic)
	tell[4] = kindTell
	odd := append([]byte(nil), tell...)
	odd[4] = 9
	for _, b := range [][]byte{tell, odd, []byte("x"), make([]byte, 2*size), append(append([]byte(nil), tell...), 0)} {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	ask := append([]byte(nil), tell...)
	ask[4] = kindAsk
	if _, err := c.Write(ask); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 100)
	if n, err := c.Read(buf); err != nil || n != size || buf[4] != kindTell {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if s := a.Stats(); s.Dropped != 5 || s.Served != 1 {
		t.Errorf("counts %+v", s)
	}
}
