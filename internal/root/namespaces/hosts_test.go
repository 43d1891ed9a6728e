package namespaces_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// Who may publish which host and port is part of a namespace's standing. What is published
// already stays, and is shown.
func TestHostsOfNamespaces(t *testing.T) {
	ctx, store := t.Context(), bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	for _, name := range []string{"shop", "blog"} {
		if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	host := func(namespace, app, host string) []byte {
		return roottest.App(namespace, app, 1, fmt.Sprintf("    ports: [{name: http, ingress: {host: %q}}]\n", host))
	}
	stands := func(namespace string, s wire.Standing) apiv1.NamespaceView {
		t.Helper()
		v, err := b.SetStanding(ctx, namespace, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	refused := func(source []byte, want string, words ...string) {
		t.Helper()
		before := store.Rev()
		_, err := b.Apply(ctx, source, false)
		if roottest.Code(err) != want {
			t.Errorf("%v, want %s", err, want)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q is not in %v", w, err)
			}
		}
		if store.Rev() != before {
			t.Error("something was stored")
		}
	}
	if _, err := b.SetStanding(ctx, "shop", wire.Standing{Hosts: "*.org"}); roottest.Code(err) != "bad-standing" {
		t.Error(err)
	}
	if _, err := b.SetStanding(ctx, "shop", wire.Standing{Ports: "x"}); roottest.Code(err) != "bad-standing" {
		t.Error(err)
	}
	roottest.MustApply(t, b, host("shop", "one", "b.test"))
	roottest.MustApply(t, b, host("shop", "hello", "hello.localhost"))
	refused(host("blog", "two", "*.b.test"), "host-taken", "services.web.ports[0].ingress",
		"verge namespace standing blog weight=1,hosts=any+*.b.test")
	refused(host("blog", "two", "localhost"), "not-to-publish", "every machine",
		"verge namespace standing blog weight=1,hosts=any+localhost")
	stands("blog", wire.Standing{Hosts: "any+localhost"})
	roottest.MustApply(t, b, host("blog", "two", "localhost"))

	// A host that is given to a namespace is its own, before it publishes it.
	stands("shop", wire.Standing{Hosts: "*.shop.test", Ports: "5432"})
	refused(host("blog", "three", "a.shop.test"), "not-to-publish", "reserved for another namespace")
	refused(roottest.App("blog", "three", 1, "    ports: [{name: db, protocol: tcp, number: 5432, ingress: {port: 5432}}]\n"),
		"not-to-publish", "port 5432/tcp is reserved")
	refused(host("shop", "three", "other.test"), "not-to-publish", "(*.shop.test)")
	roottest.MustApply(t, b, host("shop", "three", "a.shop.test"))

	// What the application publishes already it keeps, and nothing more.
	roottest.MustApply(t, b, roottest.App("shop", "one", 2, "    ports: [{name: http, ingress: {host: b.test, paths: [/x]}}]\n"))
	refused(host("shop", "one", "c.test"), "not-to-publish")
	if _, err := b.Scale(ctx, "one", "web", 3); err != nil {
		t.Error(err)
	}
	v, err := b.Namespace(ctx, "shop")
	if err != nil || len(v.Unallowed) != 2 || !strings.HasPrefix(v.Unallowed[1], "one.web: b.test is not among") {
		t.Errorf("%q, %v", v.Unallowed, err)
	}

	// The clusters are told that alone.
	told := func() map[string]wire.Publish {
		t.Helper()
		r, err := exchange.Desired{Store: store, Parts: clusters.DesiredOf(b.Core, "edge").Parts}.Fetch(ctx,
			wire.Fetch{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]wire.Publish{}
		for _, ch := range r.Changes {
			if name, ok := strings.CutPrefix(ch.Key, "publish."); ok {
				var p wire.Publish
				if err := json.Unmarshal(ch.Value, &p); err != nil {
					t.Fatal(err)
				}
				out[name] = p
			}
		}
		return out
	}
	if got := told(); len(got) != 2 || got["shop"] != (wire.Publish{V: wire.Version, Hosts: "*.shop.test",
		Ports: "5432"}) {
		t.Errorf("clusters are told %+v", got)
	}
	stands("shop", wire.Standing{Weight: 2})
	if got := told(); len(got) != 1 || got["blog"].Hosts != "any+localhost" {
		t.Errorf("clusters are told %+v", got)
	}
}
