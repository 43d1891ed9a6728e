package doctor

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

func TestUplinkOfAWorker(t *testing.T) {
	for _, c := range []struct {
		rate   string
		shapes bool
		status Status
		words  string
	}{{"0bps", true, Note, "not set"}, {"20Mbps", true, OK, "below 20Mbps"}, {"20Mbps", false, Warn, "no effect"}} {
		if f := uplink(c.rate, c.shapes); f.Status != c.status || !strings.Contains(f.Detail, c.words) {
			t.Errorf("%s, %t: %+v", c.rate, c.shapes, f)
		}
	}
	if _, err := os.Stat("/proc/config.gz"); err == nil && module("sch_nothing") {
		t.Error("a module that nobody has is there")
	}
}

func TestAddressesOfAWorker(t *testing.T) {
	n := Node{Role: "worker", Dir: t.TempDir()}
	orders := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(n.Dir, engineapi.EngineOrdersFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	given := func(l wire.Lease) {
		t.Helper()
		body, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(engineapi.EngineOrders{V: wire.Version,
			Network: &wire.Network{Lease: wire.SignedLease{Body: body}}})
		if err != nil {
			t.Fatal(err)
		}
		orders(b)
	}
	want := func(what string, status Status, words string, host ...string) {
		t.Helper()
		var list []netip.Prefix
		for _, h := range host {
			list = append(list, netip.MustParsePrefix(h))
		}
		f := n.addresses(list)
		if f.Status != status || !strings.Contains(f.Detail+" "+f.Remedy, words) {
			t.Errorf("%s: %+v", what, f)
		}
	}
	want("nothing yet", Note, "nothing was given")
	orders([]byte(`{"v":1}`))
	want("no network", Note, "nothing was given")
	orders([]byte(`{`))
	want("damaged", Warn, "cannot be read")
	l := wire.Lease{Number: 7, Prefix: netip.MustParsePrefix("fd12::/48"), Pool: netip.MustParsePrefix("10.128.0.0/9"),
		Services: netip.MustParsePrefix("10.30.0.0/16")}
	given(l)
	want("no IPv4", Note, "used up")
	l.IPv4 = netip.MustParsePrefix("10.128.3.0/24")
	given(l)
	want("all there", OK, "number 7", "192.168.1.0/24", "fd13::/64")
	want("in the pool", Warn, "--network-pool", "10.200.1.0/24")
	want("in the services", Warn, "--network-services", "10.0.0.0/10")
	want("in the prefix", Warn, "--network-prefix", "fd12:0:0:5::/64")
	for _, mode := range []string{wire.NetworkAuto, wire.NetworkOverlay, wire.NetworkLoopback} {
		n.Network = mode
		for _, f := range n.network() {
			if f.Check == "" || f.Page == "" && f.Status != OK {
				t.Errorf("%s: %+v", mode, f)
			}
		}
	}
	hostNetworks()
}
