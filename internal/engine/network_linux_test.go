package engine

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
	"github.com/verge-edge/verge/internal/wire"
)

const db0 = "shop.db.0"

// networked are orders for two instances of an application, which are connected by
// the service network.
func networked(t *testing.T) engineapi.EngineOrders {
	t.Helper()
	lease, err := json.Marshal(wire.Lease{
		V: wire.Version, Prefix: netip.MustParsePrefix("fd12:3456:789a::/48"), Number: 7,
		IPv4: netip.MustParsePrefix("10.128.7.0/24"), Pool: netip.MustParsePrefix("10.128.0.0/9"),
		Services: netip.MustParsePrefix("10.30.0.0/16"),
	})
	if err != nil {
		t.Fatal(err)
	}
	web, db := serverOrder(t), serverOrder(t)
	db.ID, db.Service = db0, "db"
	spec := *db.Spec
	db.Spec = &spec
	o := engineapi.EngineOrders{
		V: wire.Version, Have: wire.Rev{Inc: "era", N: 1}, Orders: []wire.Order{web, db},
		Network: &wire.Network{V: wire.Version, Lease: wire.SignedLease{Body: lease}},
	}
	for i := range o.Orders {
		x := &o.Orders[i]
		x.AppNumber, x.Peers = 3, nil
		x.Spec.Env = map[string]string{beServer: "own"}
		o.Routes = append(o.Routes, wire.Route{
			V: wire.Version, App: "shop", Service: x.Service, AppNumber: 3, Ports: x.Spec.Ports,
			Endpoints: []wire.Endpoint{{Instance: x.ID, Cluster: "edge", Worker: "w1"}},
		})
	}
	return o
}

// TestServiceNetwork runs in namespaces of its own, see overlaytest.
func TestServiceNetwork(t *testing.T) {
	if overlaytest.Again(t) {
		return
	}
	b := newBenchWith(t, wire.NetworkOverlay)
	o := networked(t)
	waiting := o
	waiting.Network = nil
	b.put(waiting)
	b.until("it waits for its place",
		func() bool { return strings.Contains(b.status(web0).Why, "place in the service network") })
	b.put(o)
	ready := func(id string) wire.InstanceStatus {
		t.Helper()
		b.until(id+" is ready", func() bool { return b.status(id).Ready })
		return b.status(id)
	}
	web, db := ready(web0), ready(db0)
	if len(web.Addrs) != 2 || web.Addrs[0].String() != "fd12:3456:789a:0:7:0:300:1" &&
		web.Addrs[0].String() != "fd12:3456:789a:0:7:0:300:2" {
		t.Fatalf("addresses %v", web.Addrs)
	}
	if n := b.info().Network; n == nil || n.Mode != wire.NetworkOverlay {
		t.Errorf("what it says of its network: %+v", n)
	}
	at := "http://" + netip.AddrPortFrom(web.Addrs[0], uint16(wire.NetworkPort(o.Orders[0].Spec.Ports, 0))).String()
	fetch := func(what string) string {
		t.Helper()
		text, err := get(at + "/fetch?url=" + url.QueryEscape(what))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	port := ":" + strings.TrimPrefix(at[strings.LastIndexByte(at, ':'):], ":")
	for _, name := range []string{"db", "closest.db", "any.local.db", "0.instance.db",
		"db.default.shop.default.verge.internal"} {
		if text := fetch("http://" + name + port + "/"); !strings.HasPrefix(text, itoa(db.PID)) {
			t.Errorf("%s: %s, want process %d", name, text, db.PID)
		}
	}
	if text := fetch("http://nothing" + port + "/"); !strings.Contains(text, "no such host") {
		t.Errorf("an unknown name: %s", text)
	}

	// Killed and started again: the same processes at the same addresses.
	b.kill()
	if text := fetch("http://" + db.Addrs[1].String() + port + "/"); !strings.HasPrefix(text, itoa(db.PID)) {
		t.Errorf("while there is no engine: %s", text)
	}
	b.start()
	if again := ready(web0); again.PID != web.PID || again.Addrs[0] != web.Addrs[0] || again.Restarts != 0 {
		t.Errorf("was %+v, is %+v", web, again)
	}
	ready(db0)
	if text := fetch("http://proximity.db" + port + "/"); !strings.HasPrefix(text, itoa(db.PID)) {
		t.Errorf("after the engine was killed: %s", text)
	}

	// What ended is started again where it was; what is not ordered goes.
	_, _ = get(at + "/exit?code=3")
	b.until("web is started again", func() bool { s := b.status(web0); return s.Ready && s.Restarts == 1 })
	if again := b.status(web0); again.Addrs[0] != web.Addrs[0] {
		t.Errorf("it had %v and has %v", web.Addrs, again.Addrs)
	}
	o.Orders, o.Routes = o.Orders[:1], o.Routes[:1]
	b.put(o)
	b.until("db is gone", func() bool { return b.status(db0).ID == "" })
	if n := devices(t); n != 1 {
		t.Errorf("%d devices for one instance", n)
	}

	// What it does is told in figures, and what it refused to who asks for paths.
	if status, page := b.do(http.MethodGet, "/v1/metrics", nil); status != http.StatusOK ||
		!strings.Contains(page, "verge_network_instances") ||
		!strings.Contains(page, "verge_network_dropped_packets_total") || !strings.Contains(page, "spoofed") ||
		!strings.Contains(page, "verge_dns_answers_total") {
		t.Errorf("figures: %d %q", status, page)
	}
	if status, text := b.do(http.MethodGet, "/v1/net", nil); status != http.StatusOK ||
		!strings.Contains(text, `"dropped":{`) {
		t.Errorf("paths: %d %s", status, text)
	}

	// A stop leaves nothing.
	if status, text := b.do(http.MethodPost, "/v1/shutdown", nil); status != http.StatusAccepted {
		t.Fatalf("shutdown: %d %s", status, text)
	}
	_ = b.cmd.Wait()
	if n := devices(t); n != 0 {
		t.Errorf("%d devices are left", n)
	}
	if out, err := exec.Command("nft", "list", "tables").Output(); err == nil &&
		strings.Contains(string(out), "verge") {
		t.Errorf("left: %s", out)
	}
	if m, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(m), b.dir) {
		t.Error("mounts are left")
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// devices of instances.
func devices(t *testing.T) (n int) {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if strings.HasPrefix(d.Name, "vg") && strings.Contains(d.Name, "i") {
			n++
		}
	}
	return n
}
