package secrets_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

const secretive = `application: shop
services:
  web:
    command: [x]
    env_secrets: {DB_PASSWORD: db-password}
    files: {tls/key.pem: {secret: tls-key}}
    affinity: {cluster: [edge]}
`

const password = "correct horse battery"

func sealKey(t *testing.T, dir string) *seal.Key {
	t.Helper()
	k, err := seal.Ensure(dir)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// vaulted is a root with a key and two clusters, which know theirs.
type vaulted struct {
	backend.Backend
	t    *testing.T
	keys map[string]*seal.Key
	seq  uint64
	// gateways that each cluster has.
	gateways map[string]int
}

func newVaulted(t *testing.T, store *bustest.MemStore, dir string) *vaulted {
	t.Helper()
	v := &vaulted{Backend: roottest.NewBackend(t, store), t: t, keys: map[string]*seal.Key{}}
	v.Key = sealKey(t, dir)
	if err := controller.Init(t.Context(), v.Core, time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"edge", "fog"} {
		v.M.Clusters[name] = state.NewCluster(state.ClusterRecord{V: wire.Version, Name: name}, time.Now())
		v.keys[name] = sealKey(t, t.TempDir())
	}
	return v
}

// report lets a cluster say what it is.
func (v *vaulted) report(name string) {
	v.t.Helper()
	sp := wire.Spread{Sum: 1e12, Mean: 1e12, Max: 1e12}
	v.seq++
	clusters.OnReport(v.t.Context(), v.Core, name, wire.Report{V: wire.Version, To: wire.Rev{Inc: name, N: v.seq},
		Status: roottest.JSON(v.t, wire.Aggregate{
			V: wire.Version, Workers: 1, Runtimes: []string{"process"},
			FreeCapacity: wire.FreeCapacity{CPU: sp, Memory: sp, Disk: sp}, SealKey: v.keys[name].Public(),
			Gateways: v.gateways[name],
		})})
	roottest.Pass(v.t, v.Core)
}

func (v *vaulted) set(name, value string) {
	v.t.Helper()
	if _, err := v.SetSecret(v.t.Context(), "default", name, []byte(value)); err != nil {
		v.t.Fatal(err)
	}
	roottest.Pass(v.t, v.Core)
}

// given are the values that a cluster can open of what it is given, by the id of
// the secret; "?" for those that it cannot.
func (v *vaulted) given(cluster string) map[string]string {
	v.t.Helper()
	f, err := clusters.DesiredOf(v.Core, cluster).Fetch(v.t.Context(), wire.Fetch{V: wire.Version})
	if err != nil || f.More {
		v.t.Fatalf("%+v, %v", f, err)
	}
	out := map[string]string{}
	for _, ch := range f.Changes {
		id, ok := strings.CutPrefix(ch.Key, "secret.")
		if !ok {
			continue
		}
		var s wire.SealedSecret
		if err := json.Unmarshal(ch.Value, &s); err != nil {
			v.t.Fatal(err)
		}
		out[id] = "?"
		if value, err := v.keys[cluster].Open(s.Purpose(), s.Sealed); err == nil && s.ID() == id &&
			s.Key == v.keys[cluster].ID() {
			out[id] = string(value)
		}
	}
	return out
}

// settled says that no pass changes anything any more, and that no value can be
// read in the store.
func (v *vaulted) settled(values ...string) {
	v.t.Helper()
	before := v.RecordStore.Rev()
	for range 3 {
		roottest.Pass(v.t, v.Core)
	}
	if now := v.RecordStore.Rev(); now != before {
		v.t.Errorf("passes go on and on: revision %d became %d", before, now)
	}
	entries, err := v.RecordStore.List(v.t.Context(), "")
	if err != nil {
		v.t.Fatal(err)
	}
	for _, e := range entries {
		for _, value := range values {
			if bytes.Contains(e.Value, []byte(value)) {
				v.t.Errorf("%s has a secret in it", e.Key)
			}
		}
	}
	if text := fmt.Sprintf("%+v", secrets.Table.Rows(v.M.DB)); slices.ContainsFunc(values,
		func(s string) bool { return strings.Contains(text, s) }) {
		v.t.Error("the model has a secret in it")
	}
}

func TestSecretsGoWithShares(t *testing.T) {
	store, dir := bustest.NewMemStore(), t.TempDir()
	v := newVaulted(t, store, dir)
	v.report("edge")
	v.report("fog")
	v.set("unused", "value of unused")
	r, err := v.Apply(t.Context(), []byte(secretive), false)
	if err != nil || len(r.Warnings) != 2 ||
		!strings.Contains(r.Warnings[0], "services.web: secret db-password of namespace default is not there: "+
			"verge secret set db-password --namespace default") {
		t.Fatalf("%+v, %v", r, err)
	}
	roottest.Pass(t, v.Core)
	if got := v.given("edge"); len(got) != 0 {
		t.Errorf("before there is any: %v", got)
	}
	v.set("db-password", password)
	v.set("tls-key", "value of tls")
	want := map[string]string{"default.db-password": password, "default.tls-key": "value of tls"}
	if got := v.given("edge"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("edge was given %v", got)
	}
	if got := v.given("fog"); len(got) != 0 {
		t.Errorf("fog was given %v", got)
	}
	v.settled(password, "value of")

	// Another value; the others are not sealed again.
	before := secrets.SealedTable.Rows(v.M.DB)["edge.default.tls-key"]
	v.set("db-password", "another value")
	if got := v.given("edge"); got["default.db-password"] != "another value" ||
		secrets.SealedTable.Rows(v.M.DB)["edge.default.tls-key"] != before {
		t.Errorf("after a change: %v", got)
	}
	// Who has another key than before gets all anew, and the former opens nothing.
	former := v.keys["edge"]
	v.keys["edge"] = sealKey(t, t.TempDir())
	v.report("edge")
	if got := v.given("edge"); got["default.db-password"] != "another value" ||
		got["default.tls-key"] != "value of tls" {
		t.Errorf("for the new key: %v", got)
	}
	current := v.keys["edge"]
	v.keys["edge"] = former
	if got := v.given("edge"); got["default.db-password"] != "?" {
		t.Errorf("for the former key: %v", got)
	}
	v.keys["edge"] = current
	v.settled(password, "another value", "value of")

	// Another process goes on, before and after the cluster is heard again.
	again := newVaulted(t, store, dir)
	again.keys = v.keys
	roottest.Pass(t, again.Core)
	again.settled()
	again.report("edge")
	again.settled(password, "another value", "value of")
	if got := again.given("edge"); got["default.db-password"] != "another value" {
		t.Errorf("after a restart: %v", got)
	}
	list, err := again.Secrets(t.Context(), "default")
	if err != nil || len(list) != 3 || list[0].Name != "db-password" ||
		!slices.Equal(list[0].UsedBy, []string{"shop.web"}) || list[2].UsedBy != nil {
		t.Errorf("%+v, %v", list, err)
	}
	// What is removed is taken away; so is what nobody needs.
	if _, err := again.RemoveSecret(t.Context(), "default", "db-password"); err != nil {
		t.Fatal(err)
	}
	if _, err := again.RemoveSecret(t.Context(), "default", "db-password"); roottest.Code(err) != "no-such-secret" {
		t.Errorf("twice: %v", err)
	}
	roottest.Pass(t, again.Core)
	if got := again.given("edge"); len(got) != 1 || got["default.tls-key"] == "" {
		t.Errorf("after a removal: %v", got)
	}
	if _, err := again.Apply(t.Context(),
		[]byte(strings.ReplaceAll(secretive, "    files: {tls/key.pem: {secret: tls-key}}\n", "")), false); err != nil {
		t.Fatal(err)
	}
	roottest.Pass(t, again.Core)
	if got := again.given("edge"); len(got) != 0 {
		t.Errorf("what nobody needs: %v", got)
	}
	again.settled()
}

func TestSecretsThatAreRefused(t *testing.T) {
	v := newVaulted(t, bustest.NewMemStore(), t.TempDir())
	for _, c := range []struct {
		namespace, name, value, code string
	}{
		{"default", "Db", "x", "bad-name"},
		{"default", "a.b", "x", "bad-name"},
		{"default", "", "x", "bad-name"},
		{"nobodys", "db", "x", "no-such-namespace"},
		{"default", "db", "", "empty-secret"},
		{"default", "db", strings.Repeat("x", wire.MaxSecretBytes+1), "secret-too-large"},
		{"default", "db", strings.Repeat("x", wire.MaxSecretBytes), ""},
	} {
		if _, err := v.SetSecret(t.Context(), c.namespace, c.name, []byte(c.value)); roottest.Code(err) != c.code ||
			c.code == "" && err != nil {
			t.Errorf("%s of %s: %v", c.name, c.namespace, err)
		} else if err != nil && len(c.value) > 1 && strings.Contains(err.Error(), "xxx") {
			t.Errorf("%s of %s: the error has the value in it", c.name, c.namespace)
		}
	}
	for n := 1; n < wire.MaxSecrets; n++ {
		if _, err := v.SetSecret(t.Context(), "default", fmt.Sprintf("s%d", n), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.SetSecret(t.Context(), "default", "one-more", []byte("x")); roottest.Code(err) != "too-many" {
		t.Errorf("more than there can be: %v", err)
	}
	if _, err := v.SetSecret(t.Context(), "default", "s1", []byte("y")); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	if _, err := v.CreateNamespace(t.Context(), apiv1.NamespaceRequest{Name: "bank"}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.SetSecret(t.Context(), "bank", "one-more", []byte("x")); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
	if err := v.RemoveNamespace(t.Context(), "bank"); roottest.Code(err) != "not-empty" ||
		!strings.Contains(err.Error(), "one-more") {
		t.Errorf("a namespace with secrets: %v", err)
	}
}

// A root that has lost its key says so, and takes nothing away from anybody.
func TestRootWithoutItsKey(t *testing.T) {
	store := bustest.NewMemStore()
	v := newVaulted(t, store, t.TempDir())
	v.report("edge")
	v.set("db-password", password)
	v.set("tls-key", "tls")
	if _, err := v.Apply(t.Context(), []byte(secretive), false); err != nil {
		t.Fatal(err)
	}
	roottest.Pass(t, v.Core)
	other := newVaulted(t, store, t.TempDir())
	other.keys = v.keys
	other.report("edge")
	if got := other.given("edge"); got["default.db-password"] != password {
		t.Errorf("the cluster has %v", got)
	}
	list, err := other.Secrets(t.Context(), "")
	if err != nil || len(list) != 2 || !strings.Contains(list[0].Problem, "set it again") {
		t.Errorf("%+v, %v", list, err)
	}
	other.set("db-password", "new")
	if got := other.given("edge"); got["default.db-password"] != "new" || got["default.tls-key"] != "tls" {
		t.Errorf("the cluster has %v", got)
	}
	other.settled(password)
}

// The certificates of hosts go to the clusters that have gateways with TLS, wherever
// the service runs.
func TestCertificatesGoToClustersWithGateways(t *testing.T) {
	v := newVaulted(t, bustest.NewMemStore(), t.TempDir())
	v.report("edge")
	v.report("fog")
	r, err := v.Apply(t.Context(), []byte(`application: shop
services:
  web:
    command: [x]
    ports: [{ingress: {host: shop.example, tls: {secret: shop-tls}}}]
    affinity: {cluster: [edge]}
`), false)
	if err != nil || len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], "verge secret set shop-tls --namespace default --cert FILE --key FILE") {
		t.Fatalf("%+v, %v", r, err)
	}
	v.set("shop-tls", password)
	if got := fmt.Sprint(v.given("edge"), v.given("fog")); got != "map[] map[]" {
		t.Errorf("clusters without a gateway were given %s", got)
	}
	v.gateways = map[string]int{"fog": 1}
	v.report("fog")
	if got := v.given("fog"); got["default.shop-tls"] != password || len(v.given("edge")) != 0 {
		t.Errorf("fog was given %v, edge %v", got, v.given("edge"))
	}
	if s, err := v.Secrets(t.Context(), "default"); err != nil || fmt.Sprint(s[0].UsedBy) != "[shop.web]" {
		t.Errorf("%+v, %v", s, err)
	}
	v.settled(password)
	v.gateways = nil
	v.report("fog")
	if got := v.given("fog"); len(got) != 0 {
		t.Errorf("without a gateway fog has %v", got)
	}
}

// When a certificate in a secret expires is known without its value.
func TestSecretExpires(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(100 * time.Hour).Truncate(time.Second).UTC()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	other := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")})
	store := bustest.NewMemStore()
	dir := t.TempDir()
	v := newVaulted(t, store, dir)
	for name, c := range map[string]struct {
		value []byte
		want  time.Time
	}{
		"cert": {append(append([]byte{}, other...), cert...), end}, "password": {[]byte(password), time.Time{}},
		"damaged": {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), time.Time{}},
	} {
		if _, err := v.SetSecret(t.Context(), "default", name, c.value); err != nil {
			t.Fatal(err)
		}
		again := newVaulted(t, store, dir)
		list, err := again.Secrets(t.Context(), "default")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.Name == name && !s.Expires.Equal(c.want) {
				t.Errorf("%s expires at %s, want %s", name, s.Expires, c.want)
			}
		}
	}
}
