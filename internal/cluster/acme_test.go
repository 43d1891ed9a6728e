package cluster

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	acmeKeyFile = "certificates/authority/shop.example/shop.example.key"
	acmeChain   = "certificates/authority/shop.example/shop.example.crt"
)

// acmeCluster publishes shop.example with a certificate by ACME. Its worker g may be a
// gateway, as h, and w may not.
func acmeCluster(t *testing.T, store *bus.MemStore, key *seal.Key) *vaulted {
	t.Helper()
	v := newVaulted(t, store, key, map[string]*seal.Key{"g": sealKey(t), "h": sealKey(t), "w": sealKey(t)})
	for _, name := range []string{"g", "h"} {
		if _, err := v.grant(t.Context(), name, wire.GatewayGrant{Allowed: true}, "", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	port := func(name, host, mode string) api.Port {
		return api.Port{Name: name, Protocol: "http", Ingress: &api.Ingress{Host: host, TLS: api.IngressTLS{Mode: mode}}}
	}
	far := wire.Route{V: wire.Version, App: "shop", Namespace: "team", Service: "web", Policy: "round-robin",
		Ports: []api.Port{port("http", "shop.example", api.TLSACME), port("own", "own.example", api.TLSSelfSigned)}}
	v.take(true, wire.Change{Key: "route.shop.web", Value: encoded(t, far)})
	return v
}

// does asks as a worker, and returns the code of a refusal.
func (v *vaulted) does(worker string, q wire.ACMERequest, now time.Time) (wire.ACMEReply, string) {
	v.t.Helper()
	q.V = wire.Version
	r, err := v.acme(v.t.Context(), worker, q, now)
	var p *wire.Problem
	if err != nil && !errors.As(err, &p) {
		v.t.Fatal(err)
	}
	if p != nil {
		return r, p.Code
	}
	return r, ""
}

// What gateways share is kept over restarts, sealed, and for those alone who may be
// gateways, of hosts alone that are published with a certificate by ACME.
func TestGatewaysShareACME(t *testing.T) {
	store, key, now := bus.NewMemStore(), sealKey(t), time.Now()
	v := acmeCluster(t, store, key)
	values := map[string][]byte{acmeKeyFile: []byte(password), acmeChain: []byte("a chain")}
	stored := wire.ACMERequest{Op: wire.ACMEStore, Values: values}
	for _, worker := range []string{"w", "nobody"} {
		if _, code := v.does(worker, stored, now); code != "not-a-gateway" {
			t.Errorf("%s, which may be no gateway: %q", worker, code)
		}
	}
	if _, code := v.does("g", stored, now); code != "" {
		t.Fatal(code)
	}
	entries, err := store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if bytes.Contains(e.Value, []byte(password)) || strings.Contains(e.Key, "shop.example") {
			t.Errorf("%s has the key of a certificate as it is", e.Key)
		}
	}
	if text := stored.String(); strings.Contains(text, password) {
		t.Errorf("a request is logged as %s", text)
	}
	v = acmeCluster(t, store, key) // started again
	if r, code := v.does("h", wire.ACMERequest{Op: wire.ACMELoad, Key: acmeKeyFile}, now); code != "" || string(r.Value) != password {
		t.Errorf("%s, %q", r, code)
	}
	if r, _ := v.does("h", wire.ACMERequest{Op: wire.ACMEList, Key: "certificates/authority/shop.example"}, now); len(r.Entries) != 2 || r.Entries[1].Size != len(password) {
		t.Errorf("%+v", r.Entries)
	}
	// What is there is not taken over from a gateway that has another.
	other := wire.ACMERequest{Op: wire.ACMEStore, Absent: true, Values: map[string][]byte{acmeKeyFile: []byte("other"), "certificates/authority/shop.example/shop.example.json": []byte("{}")}}
	if r, code := v.does("h", other, now); code != "" || !r.Found || len(v.m.acmes) != 2 {
		t.Errorf("%s, %q, %d values", r, code, len(v.m.acmes))
	}
	for about, q := range map[string]wire.ACMERequest{
		"another host":              {Op: wire.ACMELoad, Key: "certificates/authority/own.example/own.example.key"},
		"an unknown host":           {Op: wire.ACMELoad, Key: "acme/authority/challenge_tokens/x.example.json"},
		"another kind":              {Op: wire.ACMELoad, Key: "secret.team.db"},
		"a way out":                 {Op: wire.ACMELoad, Key: "certificates/authority/shop.example/../../x"},
		"no key":                    {Op: wire.ACMELoad},
		"all":                       {Op: wire.ACMEList, Key: "certificates"},
		"an unknown operation":      {Op: "dump", Key: acmeChain},
		"no values":                 {Op: wire.ACMEStore},
		"a value that is too long":  {Op: wire.ACMEStore, Values: map[string][]byte{acmeChain: make([]byte, wire.MaxACMEValue+1)}},
		"a value that nobody reads": {Op: wire.ACMEStore, Values: map[string][]byte{"certificates/authority/shop.example/other.crt": nil}},
		"a folder as a value":       {Op: wire.ACMEStore, Values: map[string][]byte{"acme/authority/users": nil}},
		"a token of another form":   {Op: wire.ACMEStore, Values: map[string][]byte{"acme/authority/challenge_tokens/shop.example": nil}},
		"a lock of another host":    {Op: wire.ACMELock, Key: "issue_cert_own.example", Owner: "x"},
		"a lock of nobody":          {Op: wire.ACMELock, Key: "issue_cert_shop.example"},
	} {
		if _, code := v.does("g", q, now); code != "bad-acme-key" {
			t.Errorf("%s: %q", about, code)
		}
	}
	if _, code := v.does("g", wire.ACMERequest{Op: wire.ACMEDelete, Key: "certificates/authority/shop.example"}, now); code != "" || len(v.m.acmes) != 0 {
		t.Errorf("%q, %d values are left", code, len(v.m.acmes))
	}
	if r, code := v.does("g", wire.ACMERequest{Op: wire.ACMELoad, Key: acmeChain}, now); code != "" || r.Found {
		t.Errorf("%s, %q", r, code)
	}
}

// A lock is one gateway's until it gives it back, its lease ends, or it may be a gateway
// no more.
func TestLocksOfGateways(t *testing.T) {
	v, now := acmeCluster(t, bus.NewMemStore(), sealKey(t)), time.Now()
	ask := func(op, worker, owner string, now time.Time) bool {
		t.Helper()
		r, code := v.does(worker, wire.ACMERequest{Op: op, Key: "issue_cert_shop.example", Owner: owner}, now)
		if code != "" {
			t.Fatal(code)
		}
		return r.Held
	}
	if !ask(wire.ACMELock, "g", "1", now) || ask(wire.ACMELock, "h", "1", now) || ask(wire.ACMELock, "g", "2", now) {
		t.Error("it is not the first one's alone")
	}
	later := now.Add(acmeLease - time.Second)
	if !ask(wire.ACMELock, "g", "1", later) || ask(wire.ACMELock, "h", "1", now.Add(acmeLease)) {
		t.Error("its lease does not go on")
	}
	if ask(wire.ACMEUnlock, "h", "1", later); ask(wire.ACMELock, "h", "1", later) {
		t.Error("another gave it back")
	}
	if !ask(wire.ACMELock, "h", "1", later.Add(acmeLease)) {
		t.Error("it outlives its lease")
	}
	if ask(wire.ACMEUnlock, "h", "1", later); !ask(wire.ACMELock, "g", "3", later) {
		t.Error("it was not given back")
	}
	if _, err := v.grant(t.Context(), "g", wire.GatewayGrant{}, "", now); err != nil {
		t.Fatal(err)
	}
	if !ask(wire.ACMELock, "h", "2", later) {
		t.Error("who may be no gateway any more has it still")
	}
}

// What takes too much room goes where its host is not published any more, and is refused
// where all are.
func TestRoomForACME(t *testing.T) {
	v, now := acmeCluster(t, bus.NewMemStore(), sealKey(t)), time.Now()
	if _, code := v.does("g", wire.ACMERequest{Op: wire.ACMEStore, Values: map[string][]byte{acmeChain: []byte("a chain")}}, now); code != "" {
		t.Fatal(code)
	}
	old := &acmeRecord{Key: "certificates/authority/gone.example/gone.example.crt", Size: maxACMEBytes - len("a chain"), SealKey: v.m.vault.Key.ID()}
	v.m.acmes[acmeID(old.Key)] = old
	if _, code := v.does("g", wire.ACMERequest{Op: wire.ACMEStore, Values: map[string][]byte{acmeKeyFile: []byte("k")}}, now); code != "" || v.m.acmes[acmeID(old.Key)] != nil {
		t.Errorf("%q, %d values", code, len(v.m.acmes))
	}
	v.m.acmes[acmeID(acmeChain)].Size = maxACMEBytes
	if _, code := v.does("g", wire.ACMERequest{Op: wire.ACMEStore, Values: map[string][]byte{"acme/authority/users/x/x.key": []byte("k")}}, now); code != "too-many" {
		t.Errorf("%q", code)
	}
}

// No certificate is asked for, or renewed, for a host that its namespace may not publish;
// one that there is stays in use.
func TestNoCertificateForAHostThatIsNotAllowed(t *testing.T) {
	v, now := acmeCluster(t, bus.NewMemStore(), sealKey(t)), time.Now()
	told := func(hosts string) {
		t.Helper()
		v.take(false, wire.Change{Key: "publish.team", Value: encoded(t, wire.Publish{V: wire.Version, Hosts: hosts})})
	}
	lock := wire.ACMERequest{Op: wire.ACMELock, Key: "issue_cert_shop.example", Owner: "o"}
	store := wire.ACMERequest{Op: wire.ACMEStore, Values: map[string][]byte{acmeKeyFile: []byte("k"), acmeChain: []byte("c")}}
	load := wire.ACMERequest{Op: wire.ACMELoad, Key: acmeChain}
	token := wire.ACMERequest{Op: wire.ACMEStore, Values: map[string][]byte{"acme/authority/challenge_tokens/shop.example.json": []byte("t")}}
	told("other.example")
	for name, q := range map[string]wire.ACMERequest{"lock": lock, "store": store, "load": load, "token": token} {
		if _, code := v.does("g", q, now); code != "not-to-publish" {
			t.Errorf("%s: %q", name, code)
		}
	}
	told("shop.example")
	for _, q := range []wire.ACMERequest{load, lock, store} {
		if _, code := v.does("g", q, now); code != "" {
			t.Errorf("%s of what is allowed: %q", q.Op, code)
		}
	}
	told("none")
	if r, code := v.does("h", load, now); code != "" || string(r.Value) != "c" {
		t.Errorf("the certificate that there is: %q, %q", r.Value, code)
	}
	if _, code := v.does("h", lock, now); code != "not-to-publish" {
		t.Errorf("a renewal: %q", code)
	}
}
