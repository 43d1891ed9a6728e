package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

const password = "correct horse battery"

// vaulted is a cluster with a key, and two workers which have theirs.
type vaulted struct {
	*core
	t    *testing.T
	keys map[string]*seal.Key
	rev  uint64
}

func sealKey(t *testing.T) *seal.Key {
	t.Helper()
	k, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newVaulted(t *testing.T, store *bus.MemStore, key *seal.Key, keys map[string]*seal.Key) *vaulted {
	t.Helper()
	v := &vaulted{core: newTestCore(t, store), t: t, keys: keys}
	v.key, v.m.vault.Key = key, key
	for name := range keys {
		if v.m.Workers[name] == nil {
			v.m.Workers[name] = state.NewWorker(state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: name}}, time.Now())
		}
		v.tell(name)
	}
	return v
}

// tell lets a worker say what it is.
func (v *vaulted) tell(name string) {
	v.t.Helper()
	v.m.Workers[name].Told = time.Time{}
	v.rev++
	report(v.t, v.core, name, wire.Rev{}, v.rev, wire.WorkerInfo{
		V: wire.Version, Runtimes: []string{"process"}, SealKey: v.keys[name].Public(),
		Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30},
	})
	pass(v.t, v.core)
}

// take takes over what the root wants.
func (v *vaulted) take(full bool, changes ...wire.Change) {
	v.t.Helper()
	v.rev++
	if err := (*rootDesired)(v.core).Take(v.t.Context(), full, changes, wire.Rev{Inc: "root", N: v.rev}, nil); err != nil {
		v.t.Fatal(err)
	}
	pass(v.t, v.core)
}

// wanting is a share of n instances that need two secrets.
func wanting(t *testing.T, n int) wire.Change {
	t.Helper()
	ch := share(t, n)
	var s wire.Share
	if err := json.Unmarshal(ch.Value, &s); err != nil {
		t.Fatal(err)
	}
	s.Namespace = "team"
	s.Spec.EnvSecrets = map[string]string{"DB_PASSWORD": "db-password"}
	s.Spec.Files = map[string]api.File{"key": {Secret: "tls-key"}}
	ch.Value = encoded(t, s)
	return ch
}

// secret is one as the root sends it.
func (v *vaulted) secret(name, version, value string) wire.Change {
	v.t.Helper()
	s := wire.SealedSecret{V: wire.Version, Namespace: "team", Name: name, Version: version, Key: v.key.ID()}
	var err error
	if s.Sealed, err = seal.Seal(v.key.Public(), s.Purpose(), []byte(value)); err != nil {
		v.t.Fatal(err)
	}
	return wire.Change{Key: "secret." + s.ID(), Value: encoded(v.t, s)}
}

// given are the values that a worker can open of what it is given; "?" for those
// that it cannot.
func (v *vaulted) given(worker string) string {
	v.t.Helper()
	f, err := v.desiredOf(worker).Fetch(v.t.Context(), wire.Fetch{V: wire.Version})
	if err != nil || f.More {
		v.t.Fatalf("%+v, %v", f, err)
	}
	var out []string
	for _, ch := range f.Changes {
		id, ok := strings.CutPrefix(ch.Key, "secret.")
		if !ok {
			continue
		}
		var s wire.SealedSecret
		if err := json.Unmarshal(ch.Value, &s); err != nil {
			v.t.Fatal(err)
		}
		text := "?"
		if value, err := v.keys[worker].Open(s.Purpose(), s.Sealed); err == nil && s.ID() == id && s.Key == v.keys[worker].ID() {
			text = string(value)
		}
		out = append(out, id+"="+text)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// settled says that no pass changes anything any more, and that no value can be
// read in the store.
func (v *vaulted) settled(values ...string) {
	v.t.Helper()
	before := v.store.Rev()
	for range 3 {
		pass(v.t, v.core)
	}
	if now := v.store.Rev(); now != before {
		v.t.Errorf("passes go on and on: revision %d became %d", before, now)
	}
	entries, err := v.store.List(v.t.Context(), "")
	if err != nil {
		v.t.Fatal(err)
	}
	text := fmt.Sprintf("%+v %+v", secrets.Given.Rows(v.m.DB), secrets.Sealed.Rows(v.m.DB))
	for _, value := range values {
		for _, e := range entries {
			if bytes.Contains(e.Value, []byte(value)) {
				v.t.Errorf("%s has a secret in it", e.Key)
			}
		}
		if strings.Contains(text, value) {
			v.t.Error("the model has a secret in it")
		}
	}
}

func TestSecretsGoWithOrders(t *testing.T) {
	store, key := bus.NewMemStore(), sealKey(t)
	v := newVaulted(t, store, key, map[string]*seal.Key{"w1": sealKey(t), "w2": sealKey(t)})
	v.take(true, wanting(t, 1), v.secret("db-password", "1", password), v.secret("unused", "1", "value of unused"))
	on, off := "w1", "w2"
	if v.m.Insts["app.web.0"].Worker == "w2" {
		on, off = off, on
	}
	if got := v.given(on); got != "team.db-password="+password {
		t.Errorf("%s was given %s", on, got)
	}
	if got := v.given(off); got != "" {
		t.Errorf("%s was given %s", off, got)
	}
	v.take(false, v.secret("tls-key", "1", "value of tls"))
	const both = "team.db-password=" + password + " team.tls-key=value of tls"
	if got := v.given(on); got != both {
		t.Errorf("%s was given %s", on, got)
	}
	if o := v.m.Orders[on+".app.web.0"]; o.Namespace != "team" {
		t.Errorf("the order is of namespace %q", o.Namespace)
	}
	v.settled(password, "value of")

	// A second instance, on the other worker.
	v.take(false, wanting(t, 2))
	if got := v.given(off); got != both {
		t.Errorf("%s was given %s", off, got)
	}
	// Another value; the other secret is not sealed again.
	before := secrets.Sealed.Rows(v.m.DB)[on+".team.tls-key"]
	v.take(false, v.secret("db-password", "2", "another value"))
	for _, name := range []string{on, off} {
		if got := v.given(name); got != "team.db-password=another value team.tls-key=value of tls" {
			t.Errorf("%s was given %s", name, got)
		}
	}
	if secrets.Sealed.Rows(v.m.DB)[on+".team.tls-key"] != before {
		t.Error("one that did not change was sealed again")
	}
	// The same value, sealed anew by the root, is no change.
	v.take(false, v.secret("db-password", "2", "another value"))
	v.settled(password, "another value", "value of")

	// Another key of a worker.
	former := v.keys[on]
	v.keys[on] = sealKey(t)
	v.tell(on)
	if got := v.given(on); got != "team.db-password=another value team.tls-key=value of tls" {
		t.Errorf("for the new key: %s", got)
	}
	current := v.keys[on]
	v.keys[on] = former
	if got := v.given(on); got != "team.db-password=? team.tls-key=?" {
		t.Errorf("for the former key: %s", got)
	}
	v.keys[on] = current

	// Another process of the cluster goes on without the root.
	again := newVaulted(t, store, key, v.keys)
	again.rev = v.rev
	if got := again.given(off); got != "team.db-password=another value team.tls-key=value of tls" {
		t.Errorf("after a restart: %s", got)
	}
	again.settled(password, "another value", "value of")

	// What the root takes away.
	again.take(false, wire.Change{Key: "secret.team.db-password", Deleted: true})
	if got := again.given(on); got != "team.tls-key=value of tls" {
		t.Errorf("after a removal: %s", got)
	}
	again.take(true, wanting(t, 2))
	if got := again.given(on) + again.given(off); got != "" {
		t.Errorf("of a root that has none: %s", got)
	}
	again.take(true, share(t, 2), again.secret("tls-key", "1", "value of tls"))
	if got := again.given(on) + again.given(off); got != "" {
		t.Errorf("what nobody needs: %s", got)
	}
	again.settled()
}

func TestSecretsThatCannotBeUsed(t *testing.T) {
	store := bus.NewMemStore()
	v := newVaulted(t, store, sealKey(t), map[string]*seal.Key{"w1": sealKey(t)})
	moved := v.secret("db-password", "1", password)
	moved.Key = "secret.team.tls-key"
	v.take(true, wanting(t, 1), moved)
	if got := v.given("w1"); got != "" || len(secrets.Given.Rows(v.m.DB)) != 0 {
		t.Errorf("one under another's name: %s", got)
	}
	// A worker whose key is none gets nothing, and holds nobody up.
	v.m.Workers["w1"].Told = time.Time{}
	v.rev++
	report(t, v.core, "w1", wire.Rev{}, v.rev, wire.WorkerInfo{
		V: wire.Version, Runtimes: []string{"process"}, SealKey: strings.Repeat("x", 1000), Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30},
	})
	v.take(false, v.secret("db-password", "1", password))
	if got := v.given("w1"); got != "" {
		t.Errorf("without a key: %s", got)
	}
	v.settled(password)
	v.tell("w1")
	if got := v.given("w1"); got != "team.db-password="+password {
		t.Errorf("with one: %s", got)
	}
	// A cluster that has lost its own leaves what its workers have.
	other := newVaulted(t, store, sealKey(t), v.keys)
	if got := other.given("w1"); got != "team.db-password="+password {
		t.Errorf("of a cluster with another key: %s", got)
	}
	if other.m.aggregate(wire.Rev{}, nil).SealKey != other.key.Public() || !significant(v.m.aggregate(wire.Rev{}, nil), other.m.aggregate(wire.Rev{}, nil)) {
		t.Error("the root does not hear of the new key at once")
	}
	// One that is damaged is left out, and tried again.
	other.rev = v.rev
	bad := other.secret("db-password", "2", password)
	var s wire.SealedSecret
	if err := json.Unmarshal(bad.Value, &s); err != nil {
		t.Fatal(err)
	}
	s.Sealed[40] ^= 1
	bad.Value = encoded(t, s)
	other.take(false, bad)
	if got := other.given("w1"); got != "team.db-password="+password {
		t.Errorf("after a damaged one: %s", got)
	}
	other.settled(password)
}

// The certificates of hosts go to the workers that are gateways with TLS, wherever
// the service runs, and to no others.
func TestCertificatesGoToGateways(t *testing.T) {
	store, key := bus.NewMemStore(), sealKey(t)
	v := newVaulted(t, store, key, map[string]*seal.Key{"w1": sealKey(t), "w2": sealKey(t)})
	far := wire.Route{V: wire.Version, App: "shop", Namespace: "team", Service: "web", Policy: "round-robin",
		Ports: []api.Port{{Name: "http", Protocol: "http", Ingress: &api.Ingress{Host: "shop.example", TLS: api.IngressTLS{Secret: "shop-tls"}}}}}
	route := wire.Change{Key: "route.shop.web", Value: encoded(t, far)}
	v.take(true, route, v.secret("shop-tls", "v1", password), v.secret("other", "v1", "value of other"))
	if got := v.given("w1") + v.given("w2"); got != "" {
		t.Errorf("no gateway was given %q", got)
	}
	if n := v.m.aggregate(wire.Rev{}, nil).Gateways; n != 0 {
		t.Errorf("%d gateways", n)
	}
	gateway := func(name string, g *wire.GatewayInfo) {
		v.m.Workers[name].Told = time.Time{}
		v.rev++
		report(t, v.core, name, wire.Rev{}, v.rev, wire.WorkerInfo{
			V: wire.Version, Runtimes: []string{"process"}, SealKey: v.keys[name].Public(), Gateway: ":8480", Published: g,
			Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30},
		})
		pass(t, v.core)
	}
	gateway("w1", &wire.GatewayInfo{TLS: ":8443"})
	if got, n := v.given("w1"), secrets.Gateways(v.m.Model); got != "" || n != 0 {
		t.Errorf("without a grant the gateway was given %q, and %d count", got, n)
	}
	allow := func(name string, allowed bool) {
		t.Helper()
		if _, err := v.grant(t.Context(), name, wire.GatewayGrant{Allowed: allowed}, "admin/ann", time.Now()); err != nil {
			t.Fatal(err)
		}
		pass(t, v.core)
	}
	allow("w1", true)
	allow("w2", true)
	gateway("w2", &wire.GatewayInfo{}) // without TLS it has no use of them
	if got := v.given("w1"); got != "team.shop-tls="+password {
		t.Errorf("the gateway was given %q", got)
	}
	if got := v.given("w2"); got != "" {
		t.Errorf("a gateway without TLS was given %q", got)
	}
	if n := v.m.aggregate(wire.Rev{}, nil).Gateways; n != 1 {
		t.Errorf("%d gateways", n)
	}
	v.settled(password, "value of")
	allow("w1", false)
	if got, n := v.given("w1"), secrets.Gateways(v.m.Model); got != "" || n != 0 {
		t.Errorf("after the grant was taken back the gateway has %q, and %d count", got, n)
	}
	allow("w1", true)
	gateway("w1", nil)
	if got := v.given("w1"); got != "" {
		t.Errorf("what is no gateway any more has %q", got)
	}
}
