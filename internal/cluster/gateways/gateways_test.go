package gateways_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/acme"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/gateways"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	acmeKeyFile = "certificates/authority/shop.example/shop.example.key"
	acmeChain   = "certificates/authority/shop.example/shop.example.crt"
)

// acmeCluster publishes shop.example with a certificate by ACME. Its worker g may be a
// gateway, as h, and w may not.
func acmeCluster(t *testing.T, store *bustest.MemStore, key *seal.Key) *clustertest.SecretsCore {
	t.Helper()
	v := clustertest.NewSecretsCore(t, store, key, map[string]*seal.Key{"g": clustertest.NewSealKey(t),
		"h": clustertest.NewSealKey(t), "w": clustertest.NewSealKey(t)})
	for _, name := range []string{"g", "h"} {
		if _, err := workers.Grant(t.Context(), v.Core, name, wire.GatewayGrant{Allowed: true}, "",
			time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	port := func(name, host, mode string) api.Port {
		return api.Port{Name: name, Protocol: "http",
			Ingress: &api.Ingress{Host: host, TLS: api.IngressTLS{Mode: mode}}}
	}
	far := wire.Route{V: wire.Version, App: "shop", Namespace: "team", Service: "web", Policy: "round-robin",
		Ports: []api.Port{port("http", "shop.example", api.TLSACME), port("own", "own.example", api.TLSSelfSigned)}}
	v.Take(true, wire.Change{Key: "route.shop.web", Value: clustertest.JSON(t, far)})
	return v
}

// does asks as a worker, and returns the code of a refusal.
func does(v *clustertest.SecretsCore, worker string, q rpc.ACMERequest, now time.Time) (rpc.ACMEReply, string) {
	v.T.Helper()
	q.V = wire.Version
	r, err := gateways.Acme(v.T.Context(), v.Core, worker, q, now)
	var p *wire.Problem
	if err != nil && !errors.As(err, &p) {
		v.T.Fatal(err)
	}
	if p != nil {
		return r, p.Code
	}
	return r, ""
}

// What gateways share is kept over restarts, sealed, and for those alone who may be
// gateways, of hosts alone that are published with a certificate by ACME.
func TestGatewaysShareACME(t *testing.T) {
	store, key, now := bustest.NewMemStore(), clustertest.NewSealKey(t), time.Now()
	v := acmeCluster(t, store, key)
	values := map[string][]byte{acmeKeyFile: []byte(clustertest.Password), acmeChain: []byte("a chain")}
	stored := rpc.ACMERequest{Op: rpc.ACMEStore, Values: values}
	for _, worker := range []string{"w", "nobody"} {
		if _, code := does(v, worker, stored, now); code != "not-a-gateway" {
			t.Errorf("%s, which may be no gateway: %q", worker, code)
		}
	}
	if _, code := does(v, "g", stored, now); code != "" {
		t.Fatal(code)
	}
	entries, err := store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if bytes.Contains(e.Value, []byte(clustertest.Password)) || strings.Contains(e.Key, "shop.example") {
			t.Errorf("%s has the key of a certificate as it is", e.Key)
		}
	}
	if text := stored.String(); strings.Contains(text, clustertest.Password) {
		t.Errorf("a request is logged as %s", text)
	}
	v = acmeCluster(t, store, key) // started again
	if r, code := does(v, "h", rpc.ACMERequest{Op: rpc.ACMELoad, Key: acmeKeyFile}, now); code != "" ||
		string(r.Value) != clustertest.Password {
		t.Errorf("%s, %q", r, code)
	}
	if r, _ := does(v, "h", rpc.ACMERequest{Op: rpc.ACMEList, Key: "certificates/authority/shop.example"},
		now); len(r.Entries) != 2 || r.Entries[1].Size != len(clustertest.Password) {
		t.Errorf("%+v", r.Entries)
	}
	// What is there is not taken over from a gateway that has another.
	other := rpc.ACMERequest{Op: rpc.ACMEStore, Absent: true,
		Values: map[string][]byte{acmeKeyFile: []byte("other"),
			"certificates/authority/shop.example/shop.example.json": []byte("{}")}}
	if r, code := does(v, "h", other, now); code != "" || !r.Found || len(acme.Table.Rows(v.M.DB)) != 2 {
		t.Errorf("%s, %q, %d values", r, code, len(acme.Table.Rows(v.M.DB)))
	}
	for about, q := range map[string]rpc.ACMERequest{
		"another host":         {Op: rpc.ACMELoad, Key: "certificates/authority/own.example/own.example.key"},
		"an unknown host":      {Op: rpc.ACMELoad, Key: "acme/authority/challenge_tokens/x.example.json"},
		"another kind":         {Op: rpc.ACMELoad, Key: "secret.team.db"},
		"a way out":            {Op: rpc.ACMELoad, Key: "certificates/authority/shop.example/../../x"},
		"no key":               {Op: rpc.ACMELoad},
		"all":                  {Op: rpc.ACMEList, Key: "certificates"},
		"an unknown operation": {Op: "dump", Key: acmeChain},
		"no values":            {Op: rpc.ACMEStore},
		"a value that is too long": {Op: rpc.ACMEStore,
			Values: map[string][]byte{acmeChain: make([]byte, rpc.MaxACMEValue+1)}},
		"a value that nobody reads": {Op: rpc.ACMEStore,
			Values: map[string][]byte{"certificates/authority/shop.example/other.crt": nil}},
		"a folder as a value": {Op: rpc.ACMEStore, Values: map[string][]byte{"acme/authority/users": nil}},
		"a token of another form": {Op: rpc.ACMEStore,
			Values: map[string][]byte{"acme/authority/challenge_tokens/shop.example": nil}},
		"a lock of another host": {Op: rpc.ACMELock, Key: "issue_cert_own.example", Owner: "x"},
		"a lock of nobody":       {Op: rpc.ACMELock, Key: "issue_cert_shop.example"},
	} {
		if _, code := does(v, "g", q, now); code != "bad-acme-key" {
			t.Errorf("%s: %q", about, code)
		}
	}
	if _, code := does(v, "g", rpc.ACMERequest{Op: rpc.ACMEDelete, Key: "certificates/authority/shop.example"},
		now); code != "" || len(acme.Table.Rows(v.M.DB)) != 0 {
		t.Errorf("%q, %d values are left", code, len(acme.Table.Rows(v.M.DB)))
	}
	if r, code := does(v, "g", rpc.ACMERequest{Op: rpc.ACMELoad, Key: acmeChain}, now); code != "" || r.Found {
		t.Errorf("%s, %q", r, code)
	}
}

// A lock is one gateway's until it gives it back, its lease ends, or it may be a gateway
// no more.
func TestLocksOfGateways(t *testing.T) {
	v, now := acmeCluster(t, bustest.NewMemStore(), clustertest.NewSealKey(t)), time.Now()
	ask := func(op, worker, owner string, now time.Time) bool {
		t.Helper()
		r, code := does(v, worker, rpc.ACMERequest{Op: op, Key: "issue_cert_shop.example", Owner: owner}, now)
		if code != "" {
			t.Fatal(code)
		}
		return r.Held
	}
	if !ask(rpc.ACMELock, "g", "1", now) || ask(rpc.ACMELock, "h", "1", now) || ask(rpc.ACMELock, "g", "2", now) {
		t.Error("it is not the first one's alone")
	}
	later := now.Add(acme.LockLease - time.Second)
	if !ask(rpc.ACMELock, "g", "1", later) || ask(rpc.ACMELock, "h", "1", now.Add(acme.LockLease)) {
		t.Error("its lease does not go on")
	}
	if ask(rpc.ACMEUnlock, "h", "1", later); ask(rpc.ACMELock, "h", "1", later) {
		t.Error("another gave it back")
	}
	if !ask(rpc.ACMELock, "h", "1", later.Add(acme.LockLease)) {
		t.Error("it outlives its lease")
	}
	if ask(rpc.ACMEUnlock, "h", "1", later); !ask(rpc.ACMELock, "g", "3", later) {
		t.Error("it was not given back")
	}
	if _, err := workers.Grant(t.Context(), v.Core, "g", wire.GatewayGrant{}, "", now); err != nil {
		t.Fatal(err)
	}
	if !ask(rpc.ACMELock, "h", "2", later) {
		t.Error("who may be no gateway any more has it still")
	}
}

// What takes too much room goes where its host is not published any more, and is refused
// where all are.
func TestRoomForACME(t *testing.T) {
	v, now := acmeCluster(t, bustest.NewMemStore(), clustertest.NewSealKey(t)), time.Now()
	if _, code := does(v, "g", rpc.ACMERequest{Op: rpc.ACMEStore,
		Values: map[string][]byte{acmeChain: []byte("a chain")}}, now); code != "" {
		t.Fatal(code)
	}
	old := &acme.Record{Key: "certificates/authority/gone.example/gone.example.crt",
		Size: acme.MaxBytes - len("a chain"), SealKey: secrets.VaultOf(v.M).Key.ID()}
	acme.Table.Rows(v.M.DB)[acme.ID(old.Key)] = old
	if _, code := does(v, "g", rpc.ACMERequest{Op: rpc.ACMEStore,
		Values: map[string][]byte{acmeKeyFile: []byte("k")}}, now); code != "" ||
		acme.Table.Rows(v.M.DB)[acme.ID(old.Key)] != nil {
		t.Errorf("%q, %d values", code, len(acme.Table.Rows(v.M.DB)))
	}
	acme.Table.Rows(v.M.DB)[acme.ID(acmeChain)].Size = acme.MaxBytes
	if _, code := does(v, "g", rpc.ACMERequest{Op: rpc.ACMEStore,
		Values: map[string][]byte{"acme/authority/users/x/x.key": []byte("k")}}, now); code != "too-many" {
		t.Errorf("%q", code)
	}
}

// No certificate is asked for, or renewed, for a host that its namespace may not publish;
// one that there is stays in use.
func TestNoCertificateForAHostThatIsNotAllowed(t *testing.T) {
	v, now := acmeCluster(t, bustest.NewMemStore(), clustertest.NewSealKey(t)), time.Now()
	told := func(hosts string) {
		t.Helper()
		v.Take(false, wire.Change{Key: "publish.team", Value: clustertest.JSON(t,
			wire.Publish{V: wire.Version, Hosts: hosts})})
	}
	lock := rpc.ACMERequest{Op: rpc.ACMELock, Key: "issue_cert_shop.example", Owner: "o"}
	store := rpc.ACMERequest{Op: rpc.ACMEStore,
		Values: map[string][]byte{acmeKeyFile: []byte("k"), acmeChain: []byte("c")}}
	load := rpc.ACMERequest{Op: rpc.ACMELoad, Key: acmeChain}
	token := rpc.ACMERequest{Op: rpc.ACMEStore,
		Values: map[string][]byte{"acme/authority/challenge_tokens/shop.example.json": []byte("t")}}
	told("other.example")
	for name, q := range map[string]rpc.ACMERequest{"lock": lock, "store": store, "load": load, "token": token} {
		if _, code := does(v, "g", q, now); code != "not-to-publish" {
			t.Errorf("%s: %q", name, code)
		}
	}
	told("shop.example")
	for _, q := range []rpc.ACMERequest{load, lock, store} {
		if _, code := does(v, "g", q, now); code != "" {
			t.Errorf("%s of what is allowed: %q", q.Op, code)
		}
	}
	told("none")
	if r, code := does(v, "h", load, now); code != "" || string(r.Value) != "c" {
		t.Errorf("the certificate that there is: %q, %q", r.Value, code)
	}
	if _, code := does(v, "h", lock, now); code != "not-to-publish" {
		t.Errorf("a renewal: %q", code)
	}
}
