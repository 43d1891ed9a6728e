package engine

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Which ports of an instance may be connected to, and where they are.
func TestPortsThatAreForwarded(t *testing.T) {
	spec := &api.Service{Ports: []api.Port{{Name: "http"}, {Name: "dns", Protocol: "udp", Number: 53}}}
	shared := snapshot{run: wire.Order{Spec: spec}, ports: map[string]int{"http": 25001, "dns": 53}}
	own := shared
	own.addrs = []netip.Addr{netip.MustParseAddr("10.128.0.2"), netip.MustParseAddr("fd00::2")}
	for _, c := range []struct {
		of   snapshot
		port string
		want []string
	}{
		{shared, "http", []string{"127.0.0.1:25001"}}, {shared, "25001", []string{"127.0.0.1:25001"}},
		{own, "http", []string{"10.128.0.2:25001", "[fd00::2]:25001"}}, {own, "5432", []string{"10.128.0.2:5432", "[fd00::2]:5432"}},
		// Others of its loopback are the machine's; datagrams are no connections.
		{shared, "22", nil}, {shared, "dns", nil}, {own, "53", nil}, {own, "none", nil}, {own, "0", nil}, {own, "65536", nil}, {own, "-1", nil}, {own, "", nil},
	} {
		got, err := c.of.dialable(web0, c.port)
		var p *wire.Problem
		if !slices.Equal(got, c.want) || (c.want == nil) != (errors.As(err, &p) && p.Code == "no-such-port") {
			t.Errorf("%q is at %q, %v; want %q", c.port, got, err, c.want)
		}
	}
}

// A session of a copy or of connections is one like any other: it belongs to who
// opened it, and the same key is the same session.
func TestSessionsOfOtherKinds(t *testing.T) {
	b := newBench(t)
	b.apply(server(t))
	b.ready(0)
	for name, ask := range map[string]wire.ExecAsk{
		"forward": {Forward: &wire.ForwardStart{Key: "12345678", Ports: []string{"http"}}},
		"copy":    {Copy: &wire.CopyStart{Key: "87654321", Path: "new", Into: true}},
	} {
		ask.Do, ask.Owner, ask.Instance = wire.ExecDoStart, "ann", web0
		first, code := b.exec(ask)
		if code != "" {
			t.Fatalf("%s: %s", name, code)
		}
		if again, code := b.exec(ask); again.Session != first.Session {
			t.Errorf("%s: asked twice it is %q and %q %s", name, first.Session, again.Session, code)
		}
		if _, code := b.exec(wire.ExecAsk{Do: wire.ExecDoInput, Owner: "bob", Instance: web0, Session: first.Session, Input: &wire.ExecInput{End: true}}); code != "no-such-session" {
			t.Errorf("%s: another's: %q", name, code)
		}
		if _, code := b.exec(wire.ExecAsk{Do: wire.ExecDoInput, Owner: "ann", Instance: web0, Session: first.Session, Input: &wire.ExecInput{End: true}}); code != "" {
			t.Errorf("%s: %q", name, code)
		}
		_, last := b.output(first.Session, never)
		// Connections end in order with their input, a copy without anything has failed.
		if ok := last.Exit != nil && last.Exit.Code == 0; ok != (name == "forward") {
			t.Errorf("%s ended with %+v", name, last)
		}
	}
	for want, ask := range map[string]wire.ExecAsk{
		"no-such-port": {Forward: &wire.ForwardStart{Key: "1", Ports: []string{"22"}}},
		"bad-request":  {},
	} {
		ask.Do, ask.Owner, ask.Instance = wire.ExecDoStart, "ann", web0
		if _, code := b.exec(ask); code != want {
			t.Errorf("%+v: %q, want %q", ask, code, want)
		}
	}
}
