package sessions

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Which ports of an instance may be connected to, and where they are.
func TestPortsThatAreForwarded(t *testing.T) {
	spec := &api.Service{Ports: []api.Port{{Name: "http"}, {Name: "dns", Protocol: "udp", Number: 53}}}
	shared := state.Snapshot{Order: wire.Order{Spec: spec}, Ports: map[string]int{"http": 25001, "dns": 53}}
	own := shared
	own.Addrs = []netip.Addr{netip.MustParseAddr("10.128.0.2"), netip.MustParseAddr("fd00::2")}
	for _, c := range []struct {
		of   state.Snapshot
		port string
		want []string
	}{
		{shared, "http", []string{"127.0.0.1:25001"}}, {shared, "25001", []string{"127.0.0.1:25001"}},
		{own, "http", []string{"10.128.0.2:25001", "[fd00::2]:25001"}},
		{own, "5432", []string{"10.128.0.2:5432", "[fd00::2]:5432"}},
		// Others of its loopback are the machine's; datagrams are no connections.
		{shared, "22", nil}, {shared, "dns", nil}, {own, "53", nil}, {own, "none", nil}, {own, "0", nil},
		{own, "65536", nil}, {own, "-1", nil}, {own, "", nil},
	} {
		got, err := dialable(&c.of, "shop.web.0", c.port)
		var p *wire.Problem
		if !slices.Equal(got, c.want) || (c.want == nil) != (errors.As(err, &p) && p.Code == "no-such-port") {
			t.Errorf("%q is at %q, %v; want %q", c.port, got, err, c.want)
		}
	}
}
