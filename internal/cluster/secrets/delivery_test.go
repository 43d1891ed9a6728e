package secrets_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

func TestSecretsGoWithOrders(t *testing.T) {
	store, key := bustest.NewMemStore(), clustertest.NewSealKey(t)
	v := clustertest.NewSecretsCore(t, store, key, map[string]*seal.Key{"w1": clustertest.NewSealKey(t),
		"w2": clustertest.NewSealKey(t)})
	v.Take(true, clustertest.WantingShare(t, 1), v.Secret("db-password", "1", clustertest.Password),
		v.Secret("unused", "1", "value of unused"))
	on, off := "w1", "w2"
	if v.M.Insts["app.web.0"].Worker == "w2" {
		on, off = off, on
	}
	if got := v.ValuesOf(on); got != "team.db-password="+clustertest.Password {
		t.Errorf("%s was given %s", on, got)
	}
	if got := v.ValuesOf(off); got != "" {
		t.Errorf("%s was given %s", off, got)
	}
	v.Take(false, v.Secret("tls-key", "1", "value of tls"))
	const both = "team.db-password=" + clustertest.Password + " team.tls-key=value of tls"
	if got := v.ValuesOf(on); got != both {
		t.Errorf("%s was given %s", on, got)
	}
	if o := v.M.Orders[on+".app.web.0"]; o.Namespace != "team" {
		t.Errorf("the order is of namespace %q", o.Namespace)
	}
	v.Settled(clustertest.Password, "value of")

	// A second instance, on the other worker.
	v.Take(false, clustertest.WantingShare(t, 2))
	if got := v.ValuesOf(off); got != both {
		t.Errorf("%s was given %s", off, got)
	}
	// Another value; the other secret is not sealed again.
	before := secrets.Sealed.Rows(v.M.DB)[on+".team.tls-key"]
	v.Take(false, v.Secret("db-password", "2", "another value"))
	for _, name := range []string{on, off} {
		if got := v.ValuesOf(name); got != "team.db-password=another value team.tls-key=value of tls" {
			t.Errorf("%s was given %s", name, got)
		}
	}
	if secrets.Sealed.Rows(v.M.DB)[on+".team.tls-key"] != before {
		t.Error("one that did not change was sealed again")
	}
	// The same value, sealed anew by the root, is no change.
	v.Take(false, v.Secret("db-password", "2", "another value"))
	v.Settled(clustertest.Password, "another value", "value of")

	// Another key of a worker.
	former := v.Keys[on]
	v.Keys[on] = clustertest.NewSealKey(t)
	v.ReportKey(on)
	if got := v.ValuesOf(on); got != "team.db-password=another value team.tls-key=value of tls" {
		t.Errorf("for the new key: %s", got)
	}
	current := v.Keys[on]
	v.Keys[on] = former
	if got := v.ValuesOf(on); got != "team.db-password=? team.tls-key=?" {
		t.Errorf("for the former key: %s", got)
	}
	v.Keys[on] = current

	// Another process of the cluster goes on without the root.
	again := clustertest.NewSecretsCore(t, store, key, v.Keys)
	again.Rev = v.Rev
	if got := again.ValuesOf(off); got != "team.db-password=another value team.tls-key=value of tls" {
		t.Errorf("after a restart: %s", got)
	}
	again.Settled(clustertest.Password, "another value", "value of")

	// What the root takes away.
	again.Take(false, wire.Change{Key: "secret.team.db-password", Deleted: true})
	if got := again.ValuesOf(on); got != "team.tls-key=value of tls" {
		t.Errorf("after a removal: %s", got)
	}
	again.Take(true, clustertest.WantingShare(t, 2))
	if got := again.ValuesOf(on) + again.ValuesOf(off); got != "" {
		t.Errorf("of a root that has none: %s", got)
	}
	again.Take(true, clustertest.ShareChange(t, 2), again.Secret("tls-key", "1", "value of tls"))
	if got := again.ValuesOf(on) + again.ValuesOf(off); got != "" {
		t.Errorf("what nobody needs: %s", got)
	}
	again.Settled()
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	store := bustest.NewMemStore()
	v := clustertest.NewSecretsCore(t, store, clustertest.NewSealKey(t),
		map[string]*seal.Key{"w1": clustertest.NewSealKey(t)})
	moved := v.Secret("db-password", "1", clustertest.Password)
	moved.Key = "secret.team.tls-key"
	v.Take(true, clustertest.WantingShare(t, 1), moved)
	if got := v.ValuesOf("w1"); got != "" || len(secrets.FromRoot.Rows(v.M.DB)) != 0 {
		t.Errorf("one under another's name: %s", got)
	}
	// A worker whose key is none gets nothing, and holds nobody up.
	v.M.Workers["w1"].Told = time.Time{}
	v.Rev++
	clustertest.SendReport(t, v.Core, "w1", wire.Rev{}, v.Rev, wire.WorkerInfo{
		V: wire.Version, Runtimes: []string{"process"}, SealKey: strings.Repeat("x", 1000),
		Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30},
	})
	v.Take(false, v.Secret("db-password", "1", clustertest.Password))
	if got := v.ValuesOf("w1"); got != "" {
		t.Errorf("without a key: %s", got)
	}
	v.Settled(clustertest.Password)
	v.ReportKey("w1")
	if got := v.ValuesOf("w1"); got != "team.db-password="+clustertest.Password {
		t.Errorf("with one: %s", got)
	}
	// A cluster that has lost its own leaves what its workers have.
	other := clustertest.NewSecretsCore(t, store, clustertest.NewSealKey(t), v.Keys)
	if got := other.ValuesOf("w1"); got != "team.db-password="+clustertest.Password {
		t.Errorf("of a cluster with another key: %s", got)
	}
	if report.Aggregate(other.M, wire.Rev{}, nil).SealKey != other.Key.Public() ||
		!report.Significant(report.Aggregate(v.M, wire.Rev{}, nil), report.Aggregate(other.M, wire.Rev{}, nil)) {
		t.Error("the root does not hear of the new key at once")
	}
	// One that is damaged is left out, and tried again.
	other.Rev = v.Rev
	bad := other.Secret("db-password", "2", clustertest.Password)
	var s wire.SealedSecret
	if err := json.Unmarshal(bad.Value, &s); err != nil {
		t.Fatal(err)
	}
	s.Sealed[40] ^= 1
	bad.Value = clustertest.JSON(t, s)
	other.Take(false, bad)
	if got := other.ValuesOf("w1"); got != "team.db-password="+clustertest.Password {
		t.Errorf("after a damaged one: %s", got)
	}
	other.Settled(clustertest.Password)
}

// The certificates of hosts go to the workers that are gateways with TLS, wherever
// the service runs, and to no others.
func TestCertificatesGoToGateways(t *testing.T) {
	store, key := bustest.NewMemStore(), clustertest.NewSealKey(t)
	v := clustertest.NewSecretsCore(t, store, key, map[string]*seal.Key{"w1": clustertest.NewSealKey(t),
		"w2": clustertest.NewSealKey(t)})
	far := wire.Route{V: wire.Version, App: "shop", Namespace: "team", Service: "web", Policy: "round-robin",
		Ports: []api.Port{{Name: "http", Protocol: "http",
			Ingress: &api.Ingress{Host: "shop.example", TLS: api.IngressTLS{Secret: "shop-tls"}}}}}
	route := wire.Change{Key: "route.shop.web", Value: clustertest.JSON(t, far)}
	v.Take(true, route, v.Secret("shop-tls", "v1", clustertest.Password), v.Secret("other", "v1", "value of other"))
	if got := v.ValuesOf("w1") + v.ValuesOf("w2"); got != "" {
		t.Errorf("no gateway was given %q", got)
	}
	if n := report.Aggregate(v.M, wire.Rev{}, nil).Gateways; n != 0 {
		t.Errorf("%d gateways", n)
	}
	gateway := func(name string, g *wire.GatewayInfo) {
		v.M.Workers[name].Told = time.Time{}
		v.Rev++
		clustertest.SendReport(t, v.Core, name, wire.Rev{}, v.Rev, wire.WorkerInfo{
			V: wire.Version, Runtimes: []string{"process"}, SealKey: v.Keys[name].Public(), Gateway: ":8480",
			Published: g,
			Capacity:  api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30},
		})
		clustertest.Pass(t, v.Core)
	}
	gateway("w1", &wire.GatewayInfo{TLS: ":8443"})
	if got, n := v.ValuesOf("w1"), secrets.Gateways(v.M); got != "" || n != 0 {
		t.Errorf("without a grant the gateway was given %q, and %d count", got, n)
	}
	allow := func(name string, allowed bool) {
		t.Helper()
		if _, err := workers.Grant(t.Context(), v.Core, name, wire.GatewayGrant{Allowed: allowed}, "admin/ann",
			time.Now()); err != nil {
			t.Fatal(err)
		}
		clustertest.Pass(t, v.Core)
	}
	allow("w1", true)
	allow("w2", true)
	gateway("w2", &wire.GatewayInfo{}) // without TLS it has no use of them
	if got := v.ValuesOf("w1"); got != "team.shop-tls="+clustertest.Password {
		t.Errorf("the gateway was given %q", got)
	}
	if got := v.ValuesOf("w2"); got != "" {
		t.Errorf("a gateway without TLS was given %q", got)
	}
	if n := report.Aggregate(v.M, wire.Rev{}, nil).Gateways; n != 1 {
		t.Errorf("%d gateways", n)
	}
	v.Settled(clustertest.Password, "value of")
	allow("w1", false)
	if got, n := v.ValuesOf("w1"), secrets.Gateways(v.M); got != "" || n != 0 {
		t.Errorf("after the grant was taken back the gateway has %q, and %d count", got, n)
	}
	allow("w1", true)
	gateway("w1", nil)
	if got := v.ValuesOf("w1"); got != "" {
		t.Errorf("what is no gateway any more has %q", got)
	}
}
