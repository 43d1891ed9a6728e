package ping

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestWhatIsNotAsked(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1", "224.0.0.1", "ff02::1", "255.255.255.255",
		"fd00:ec2::254",
		"100.100.100.200", "168.63.129.16", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
		"2002:7f00:1::", "::127.0.0.1",
	} {
		if err := Allowed(netip.MustParseAddr(a)); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", a, err)
		}
		if _, _, err := New().Ping(t.Context(), a, 80); !errors.Is(err, ErrRefused) {
			t.Errorf("ping %s: %v", a, err)
		}
	}
	for _, a := range []string{"192.0.2.1", "10.1.2.3", "192.168.0.9", "2001:db8::1", "fd12::1"} {
		if err := Allowed(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
}

// A name is looked up once, and leads nowhere an address would not.
func TestANameLeadsNowhereElse(t *testing.T) {
	p, asked := New(), 0
	p.lookup = func(context.Context, string) ([]netip.Addr, error) {
		asked++
		return []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("127.0.0.1")}, nil
	}
	if _, _, err := p.Ping(t.Context(), "users.example.org", 80); !errors.Is(err, ErrRefused) || asked != 1 {
		t.Errorf("%v after %d questions", err, asked)
	}
}

// A port that is open and one that is not answer alike.
func TestPortsAnswerAlike(t *testing.T) {
	p := New()
	p.allow = func(netip.Addr) error { return nil } // the only host that a test has is the machine itself
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	for range 2 { // open, then closed
		rtt, by, err := p.Ping(t.Context(), "127.0.0.1", port)
		if err != nil || rtt <= 0 || !strings.HasPrefix(by, "tcp ") {
			t.Errorf("%v, %q, %v", rtt, by, err)
		}
		_ = ln.Close()
	}
	// Without a port by whatever there is.
	if rtt, by, err := p.Ping(t.Context(), "127.0.0.1", 0); err != nil || rtt <= 0 || by == "" {
		t.Errorf("%v, %q, %v", rtt, by, err)
	}
}

func TestQuestionsAreBounded(t *testing.T) {
	p, refused := New(), 0
	for range burst + 20 {
		if _, _, err := p.Ping(t.Context(), "127.0.0.1", 1); err != nil && strings.Contains(err.Error(), "too many") {
			refused++
		}
	}
	if refused == 0 {
		t.Error("nobody was refused")
	}
}
