package acme_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/acme"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// publish makes shop.example a host with a certificate by ACME, and own.example one without.
func publish(m *state.Model) {
	port := func(host, mode string) api.Port {
		return api.Port{Name: host, Protocol: "http", Ingress: &api.Ingress{Host: host, TLS: api.IngressTLS{Mode: mode}}}
	}
	m.Names["app.web"] = &wire.Route{V: wire.Version, App: "app", Service: "web",
		Ports: []api.Port{port("Shop.example", api.TLSACME), port("own.example", api.TLSSelfSigned)}}
}

func key(host, ext string) string { return "certificates/authority/" + host + "/" + host + ext }

func TestOnlyAccountsAndPublishedHosts(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	publish(c.M)
	values := func(keys ...string) map[string][]byte {
		out := map[string][]byte{}
		for _, k := range keys {
			out[k] = []byte("x")
		}
		return out
	}
	for name, q := range map[string]rpc.ACMERequest{
		"a certificate":  {Op: rpc.ACMELoad, Key: key("shop.example", ".crt")},
		"its folder":     {Op: rpc.ACMEList, Key: "certificates/authority/shop.example"},
		"its renewal":    {Op: rpc.ACMEStore, Values: values(key("shop.example", ".crt"), key("shop.example", ".key"))},
		"its lock":       {Op: rpc.ACMELock, Key: "issue_cert_shop.example", Owner: "1"},
		"an account":     {Op: rpc.ACMEStore, Values: values("acme/authority/users/a@b.example/b.json")},
		"accounts":       {Op: rpc.ACMEList, Key: "acme/authority/users"},
		"a challenge":    {Op: rpc.ACMEStore, Values: values("acme/authority/challenge_tokens/shop.example.json")},
		"a registration": {Op: rpc.ACMEUnlock, Key: "register_acme_account_x", Owner: "1"},
	} {
		if err := acme.Check(c.M, q); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, q := range map[string]rpc.ACMERequest{
		"a host without ACME":      {Op: rpc.ACMELoad, Key: key("own.example", ".crt")},
		"a host of nobody":         {Op: rpc.ACMEDelete, Key: key("x.example", ".crt")},
		"one of two":               {Op: rpc.ACMEStore, Values: values(key("shop.example", ".crt"), key("own.example", ".crt"))},
		"all certificates":         {Op: rpc.ACMEList, Key: "certificates"},
		"all challenges":           {Op: rpc.ACMEList, Key: "acme/authority/challenge_tokens"},
		"another key of the store": {Op: rpc.ACMELoad, Key: "worker.w1"},
		"a path":                   {Op: rpc.ACMELoad, Key: "acme/authority/users/../../x"},
		"a file of another kind":   {Op: rpc.ACMEStore, Values: values(key("shop.example", ".txt"))},
		"another lock":             {Op: rpc.ACMELock, Key: "x", Owner: "1"},
		"a lock without an owner":  {Op: rpc.ACMELock, Key: "issue_cert_shop.example"},
		"a value without bounds": {Op: rpc.ACMEStore,
			Values: map[string][]byte{key("shop.example", ".crt"): make([]byte, rpc.MaxACMEValue+1)}},
	} {
		if err := acme.Check(c.M, q); err == nil {
			t.Errorf("%s: may be done", name)
		}
	}
}

// What is sealed stays in the store; a value that was sealed for another key is not readable.
func TestValuesAreSealedForTheCluster(t *testing.T) {
	store, own := bustest.NewMemStore(), clustertest.NewSealKey(t)
	for host, id := range map[string]string{"shop.example": own.ID(), "old.example": clustertest.NewSealKey(t).ID()} {
		r := acme.Record{V: wire.Version, Key: key(host, ".key"), Size: 1, SealKey: id, Sealed: []byte("sealed")}
		if _, err := store.Put(t.Context(), acme.Key+acme.ID(r.Key), clustertest.JSON(t, r)); err != nil {
			t.Fatal(err)
		}
	}
	m := clustertest.NewSecretsCore(t, store, own, nil).M
	rows := acme.Table.Rows(m.DB)
	if len(rows) != 2 {
		t.Fatalf("%d values, want 2", len(rows))
	}
	for _, r := range rows {
		if r.Sealed != nil {
			t.Errorf("%s is in memory with its contents", r.Key)
		}
	}
	if !acme.Readable(m, key("shop.example", ".key")) {
		t.Error("the value for the cluster's key is not readable")
	}
	if acme.Readable(m, key("old.example", ".key")) || acme.Readable(m, key("x.example", ".key")) {
		t.Error("a value for another key, or none, is readable")
	}
	if id := secrets.VaultOf(m).Key.ID(); id != own.ID() {
		t.Fatalf("the cluster's key is %s", id)
	}
}

// A full store makes room by what belongs to hosts that are no longer published, the oldest first,
// and refuses more otherwise.
func TestAllValuesAreBounded(t *testing.T) {
	m := clustertest.NewCore(t, bustest.NewMemStore()).M
	publish(m)
	rows, at := acme.Table.Rows(m.DB), time.Unix(1e9, 0)
	put := func(k string, size int, age time.Duration) string {
		rows[acme.ID(k)] = &acme.Record{V: wire.Version, Key: k, Size: size, Modified: at.Add(-age)}
		return acme.ID(k)
	}
	more := map[string]*acme.Record{"new": {Key: key("shop.example", ".key"), Size: 2}}
	put(key("shop.example", ".crt"), acme.MaxBytes-4, 9*time.Hour)
	put(key("young.example", ".crt"), 1, time.Hour)
	old := put(key("old.example", ".crt"), 1, 2*time.Hour)
	if drop, err := acme.MakeRoom(m, more); err != nil || len(drop) != 0 {
		t.Errorf("with room: %q, %v", drop, err)
	}
	more["new"].Size = 3
	if drop, err := acme.MakeRoom(m, more); err != nil || len(drop) != 1 || drop[0] != old {
		t.Errorf("without room: %q, %v, want the oldest that is not published", drop, err)
	}
	more["new"].Size = 5
	var p *wire.Problem
	if drop, err := acme.MakeRoom(m, more); !errors.As(err, &p) || p.Code != "too-many" {
		t.Errorf("more than fits: %q, %v", drop, err)
	}
	clear(rows)
	for n := range acme.MaxValues {
		put(fmt.Sprintf("acme/authority/users/u%d/u.json", n), 1, 0)
	}
	if _, err := acme.MakeRoom(m, more); !errors.As(err, &p) || p.Code != "too-many" {
		t.Errorf("more values than %d: %v", acme.MaxValues, err)
	}
}
