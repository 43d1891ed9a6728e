package namespaces_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

func TestNamespacesLiveAndGo(t *testing.T) {
	ctx, store := t.Context(), bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	if _, err := b.Apply(ctx, roottest.App("shop", "web", 1, ""), false); roottest.Code(err) != "no-such-namespace" {
		t.Errorf("an apply to a namespace that is not there: %v", err)
	}
	for _, name := range []string{"", "Shop", "a.b", "-a", strings.Repeat("a", 64)} {
		if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: name}); roottest.Code(err) != "bad-name" {
			t.Errorf("%q: %v", name, err)
		}
	}
	ann := access.With(ctx, access.Who{Name: "admin/ann", Admin: true})
	v, err := b.CreateNamespace(ann, apiv1.NamespaceRequest{Name: "shop", Quota: wire.Quota{Instances: 3}})
	if err != nil || v.By != "admin/ann" || v.Created.IsZero() {
		t.Fatalf("%+v, %v", v, err)
	}
	if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "shop"}); roottest.Code(err) != "name-taken" {
		t.Errorf("created twice: %v", err)
	}
	roottest.MustApply(t, b, roottest.App("shop", "web", 2, ""))
	if err := b.RemoveNamespace(ctx, "shop"); roottest.Code(err) != "not-empty" || !strings.Contains(err.Error(), "web") {
		t.Errorf("removed in use: %v", err)
	}
	// Another process finds it the same.
	b = roottest.NewBackend(t, store)
	v, err = b.Namespace(ctx, "shop")
	if err != nil || v.Quota.Instances != 3 || v.Used.Instances != 2 || v.Used.CPU != 1000 ||
		v.Used.Applications != 1 || v.By != "admin/ann" {
		t.Errorf("%+v, %v", v, err)
	}
	if list, err := b.Namespaces(ctx); err != nil || len(list) != 2 || list[0].Name != "default" {
		t.Errorf("%+v, %v", list, err)
	}
	delete(b.M.Apps, "web")
	if err := b.RemoveNamespace(ctx, "shop"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"shop", "never"} {
		if err := b.RemoveNamespace(ctx, name); roottest.Code(err) != "no-such-namespace" {
			t.Errorf("%v", err)
		}
		if _, err := b.Namespace(ctx, name); roottest.Code(err) != "no-such-namespace" {
			t.Errorf("%v", err)
		}
		if _, err := b.SetQuota(ctx, name, wire.Quota{}); roottest.Code(err) != "no-such-namespace" {
			t.Errorf("%v", err)
		}
	}
	if err := b.RemoveNamespace(ctx, "default"); roottest.Code(err) != "default-namespace" {
		t.Errorf("%v", err)
	}
}

// What would pass the quota changes nothing, whichever way it comes.
func TestQuotaRefusesAndChangesNothing(t *testing.T) {
	ctx, store := t.Context(), bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "shop",
		Quota: wire.Quota{CPU: 2000, Instances: 4, Applications: 2}}); err != nil {
		t.Fatal(err)
	}
	roottest.MustApply(t, b, roottest.App("shop", "one", 2, ""))
	refused := func(what string, err error, words ...string) {
		t.Helper()
		if roottest.Code(err) != "over-quota" {
			t.Fatalf("%s: %v", what, err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q is not in %v", what, w, err)
			}
		}
	}
	before := store.Rev()
	_, err := b.Apply(ctx, roottest.App("shop", "two", 3, ""), false)
	refused("another", err, "namespace shop", "cpu: 2 allowed, 1 used, 2500m asked for, 500m too much",
		"instances: 4 allowed, 2 used, 5 asked for, 1 too much")
	_, err = b.Apply(ctx, roottest.App("shop", "two", 3, ""), true)
	refused("dry run", err)
	_, err = b.Apply(ctx, roottest.App("shop", "one", 5, ""), false)
	refused("more of the same", err)
	_, err = b.Scale(ctx, "one", "web", 5)
	refused("scale", err)
	if store.Rev() != before || b.M.Apps["two"] != nil || b.M.Apps["one"].Revision != 1 {
		t.Error("something was stored")
	}
	roottest.MustApply(t, b, roottest.App("shop", "two", 2, ""))
	_, err = b.Apply(ctx, roottest.App("shop", "three", 0, ""), false)
	refused("one application too many", err, "applications: 2 allowed, 2 used, 3 asked for, 1 too much")
	// The other namespace has no quota, and is not counted.
	roottest.MustApply(t, b, roottest.App("default", "free", 50, ""))
	// A quota below what is used stops growth, not change.
	if _, err := b.SetQuota(ctx, "shop", wire.Quota{CPU: 100}); err != nil {
		t.Fatal(err)
	}
	roottest.MustApply(t, b, roottest.App("shop", "one", 1, ""))
	_, err = b.Scale(ctx, "one", "web", 2)
	refused("grow again", err)
	if err := b.Delete(ctx, "one"); err != nil {
		t.Errorf("delete over quota: %v", err)
	}
}

// Devices of a type count as all else does, and a bound that means nothing is refused.
func TestQuotaOfDevices(t *testing.T) {
	ctx, store := t.Context(), bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	for _, bad := range []map[string]int{{"gpu": 1}, {"": 1}, {"camera": 0}} {
		if _, err := b.CreateNamespace(ctx,
			apiv1.NamespaceRequest{Name: "shop", Quota: wire.Quota{Devices: bad}}); roottest.Code(err) != "bad-quota" {
			t.Fatalf("%v: %v", bad, err)
		}
	}
	if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "shop",
		Quota: wire.Quota{Devices: map[string]int{"camera": 2}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetQuota(ctx, "shop", wire.Quota{Devices: map[string]int{"tpu": 2}}); roottest.Code(err) != "bad-quota" {
		t.Fatal(err)
	}
	watch := func(app string, replicas int) []byte {
		return fmt.Appendf(nil, "application: %s\nnamespace: shop\nservices: {web: {command: [x], replicas: %d, "+
			"devices: [{type: camera}]}}\n", app, replicas)
	}
	roottest.MustApply(t, b, watch("one", 1))
	before := store.Rev()
	if _, err := b.Apply(ctx, watch("two", 2), false); roottest.Code(err) != "over-quota" ||
		!strings.Contains(err.Error(), "device.camera: 2 allowed, 1 used, 3 asked for, 1 too much") {
		t.Errorf("%v", err)
	}
	if _, err := b.Scale(ctx, "one", "web", 3); roottest.Code(err) != "over-quota" {
		t.Errorf("%v", err)
	}
	if store.Rev() != before {
		t.Error("something was stored")
	}
	roottest.MustApply(t, b, watch("two", 1))
	if v, err := b.Namespace(ctx, "shop"); err != nil || v.Used.Devices["camera"] != 2 {
		t.Errorf("%+v, %v", v, err)
	}
}

func ranked(namespace, app string, priority int) []byte {
	return roottest.App(namespace, app, 1, fmt.Sprintf("    priority: %d\n", priority))
}

// Where the priorities of a namespace count against others they are bounded, and the
// clusters are told with the shares; who has more than that already may keep it.
func TestStandingOfNamespaces(t *testing.T) {
	ctx, store := t.Context(), bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	if _, err := b.SetStanding(ctx, "shop", wire.Standing{Weight: 2}); roottest.Code(err) != "no-such-namespace" {
		t.Errorf("of one that is not there: %v", err)
	}
	if v, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "shop",
		Standing: wire.Standing{Weight: 2}}); err != nil || v.Standing.Weight != 2 {
		t.Fatalf("%+v, %v", v, err)
	}
	roottest.MustApply(t, b, ranked("shop", "one", 900)) // it counts at home alone
	b.M.Clusters["edge"] = &state.Cluster{Refused: map[string]state.Refusal{"one.web": {}, "free.web": {}}}
	v, err := b.SetStanding(ctx, "shop", wire.Standing{Weight: 3, MaxPriority: 50})
	if refused := b.M.Clusters["edge"].Refused; len(refused) != 1 {
		t.Errorf("who refused for want of standing is not asked again: %+v", refused)
	}
	delete(b.M.Clusters, "edge")
	if err != nil || v.Standing != (wire.Standing{Weight: 3, MaxPriority: 50}) {
		t.Fatalf("%+v, %v", v, err)
	}
	before := store.Rev()
	for what, source := range map[string][]byte{"another": ranked("shop", "two", 51),
		"more": ranked("shop", "one", 901)} {
		for _, dry := range []bool{true, false} {
			_, err := b.Apply(ctx, source, dry)
			if roottest.Code(err) != "over-priority" || !strings.Contains(err.Error(), "namespace shop may have 50 at most") ||
				!strings.Contains(err.Error(), "services.web.priority is ") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if store.Rev() != before || b.M.Apps["two"] != nil || b.M.Apps["one"].Revision != 1 {
		t.Error("something was stored")
	}
	roottest.MustApply(t, b, ranked("shop", "two", 50))
	roottest.MustApply(t, b, ranked("default", "free", 1000)) // which counts in its own
	roottest.MustApply(t, b, ranked("shop", "one", 800))
	if _, err := b.Scale(ctx, "one", "web", 2); err != nil {
		t.Errorf("what it has already: %v", err)
	}
	if err := b.Delete(ctx, "one"); err != nil {
		t.Error(err)
	}
	// Another process finds it the same; the default has one too.
	b = roottest.NewBackend(t, store)
	if v, err := b.Namespace(ctx, "shop"); err != nil || v.Standing.MaxPriority != 50 || !v.Quota.IsZero() {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := b.SetStanding(ctx, "default", wire.Standing{MaxPriority: 1}); err != nil ||
		v.Standing.MaxPriority != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := b.SetQuota(ctx, "default", wire.Quota{VGPUs: 500}); err != nil || v.Standing.MaxPriority != 1 {
		t.Errorf("a quota changes the standing: %+v, %v", v, err)
	}
}

func containing(namespace, app, security string) []byte {
	return []byte(fmt.Sprintf("application: %s\nnamespace: %s\nservices: {web: {runtime: container, image: x, "+
		"security: %s}}\n", app, namespace, security))
}

// What containers may do beyond the usual is bounded by their namespace; who has more
// than that already may keep it.
func TestRightsOfNamespaces(t *testing.T) {
	ctx, store := t.Context(), bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	allow := func(what string) {
		t.Helper()
		v, err := b.SetStanding(ctx, "shop", wire.Standing{Weight: 2, Allow: what})
		if err != nil || v.Standing.Weight != 2 {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "shop",
		Standing: wire.Standing{Allow: "root"}}); roottest.Code(err) != "bad-standing" {
		t.Errorf("%v", err)
	}
	if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	roottest.MustApply(t, b, containing("shop", "one", "{root: writable, drop: ALL}")) // without a word on it
	before := store.Rev()
	_, err := b.Apply(ctx, containing("shop", "two", "{add: [NET_RAW, CHOWN], seccomp: none}"), false)
	if roottest.Code(err) != "over-rights" || !strings.Contains(err.Error(),
		"services.web.security asks for NET_RAW, no-seccomp; namespace shop allows writable-root") ||
		!strings.Contains(err.Error(), "verge namespace standing shop weight=1,allow=NET_RAW+no-seccomp+writable-root") {
		t.Errorf("%v", err)
	}
	if store.Rev() != before || b.M.Apps["two"] != nil {
		t.Error("something was stored")
	}
	allow("net_raw+no-seccomp")
	roottest.MustApply(t, b, containing("shop", "two", "{add: [NET_RAW, CHOWN], seccomp: none}"))
	if _, err := b.Apply(ctx, containing("shop", "three", "{root: writable}"), true); roottest.Code(err) != "over-rights" {
		t.Errorf("%v", err)
	}
	roottest.MustApply(t, b, containing("shop", "one", "{root: writable}")) // what it has already
	if _, err := b.Scale(ctx, "one", "web", 2); err != nil {
		t.Errorf("what it has already: %v", err)
	}
	allow("none")
	if _, err := b.Apply(ctx, containing("shop", "one", "{root: writable, new_privileges: true}"),
		false); roottest.Code(err) != "over-rights" {
		t.Errorf("more than it has: %v", err)
	}
	roottest.MustApply(t, b, containing("shop", "three", "{}"))
	allow("all")
	roottest.MustApply(t, b, containing("shop", "three", "{root: writable, new_privileges: true, add: SYS_ADMIN}"))
}

// Who a process runs as on its worker is bounded by its namespace.
func TestUsersOfNamespaces(t *testing.T) {
	ctx := t.Context()
	b := roottest.NewBackend(t, bustest.NewMemStore())
	as := func(app, user string) []byte {
		return []byte(fmt.Sprintf("application: %s\nnamespace: shop\nservices: {web: {command: [x], user: %q}}\n",
			app, user))
	}
	if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "shop",
		Standing: wire.Standing{Allow: "all"}}); err != nil {
		t.Fatal(err)
	}
	for user, right := range map[string]string{"root": "host-root", "0": "host-root", "00:1": "host-root",
		"root:adm": "host-root", "www-data": "host-user", "1000:0": "host-user"} {
		_, err := b.Apply(ctx, as("one", user), true)
		if roottest.Code(err) != "over-rights" || !strings.Contains(err.Error(), "services.web.user asks for "+right) ||
			!strings.Contains(err.Error(), "verge namespace standing shop weight=1,allow=all+"+right) {
			t.Errorf("%s: %v", user, err)
		}
	}
	if _, err := b.SetStanding(ctx, "shop", wire.Standing{Allow: "host-user"}); err != nil {
		t.Fatal(err)
	}
	roottest.MustApply(t, b, as("one", "www-data"))
	if _, err := b.Apply(ctx, as("one", "root"), true); roottest.Code(err) != "over-rights" {
		t.Errorf("more than it has: %v", err)
	}
	if _, err := b.SetStanding(ctx, "shop", wire.Standing{Allow: "host-root"}); err != nil {
		t.Fatal(err)
	}
	roottest.MustApply(t, b, as("one", "root"))
	roottest.MustApply(t, b, []byte("application: two\nnamespace: shop\nservices: {web: {runtime: container, image: x, user: root}}\n"))
}

// The name of an application is taken for all namespaces; whose it is, only those
// hear who may see it.
func TestNamesAreOfOneNamespace(t *testing.T) {
	b := roottest.NewBackend(t, bustest.NewMemStore())
	as := func(namespaces ...string) context.Context {
		w := access.Who{Name: "user/x", Namespaces: map[string]access.Role{}}
		for _, n := range namespaces {
			w.Namespaces[n] = access.Developer
		}
		return access.With(t.Context(), w)
	}
	for _, n := range []string{"shop", "bank"} {
		if _, err := b.CreateNamespace(t.Context(), apiv1.NamespaceRequest{Name: n}); err != nil {
			t.Fatal(err)
		}
	}
	const ports = "    ports: [{name: http, ingress: {host: w.example}}]\n"
	roottest.MustApply(t, b, roottest.App("bank", "vault", 1, ports))
	for _, c := range []struct {
		ctx       context.Context
		source    []byte
		code      string
		tells     bool
		telltales []string
	}{
		{as("shop"), roottest.App("shop", "vault", 1, ""), "name-taken", false, []string{"bank"}},
		{as("shop", "bank"), roottest.App("shop", "vault", 1, ""), "name-taken", true, []string{"bank"}},
		{as("shop"), roottest.App("shop", "web", 1, ports), "host-taken", false, []string{"bank", "vault"}},
		{as("shop", "bank"), roottest.App("shop", "web", 1, ports), "host-taken", true, []string{"vault"}},
	} {
		for _, dry := range []bool{true, false} {
			_, err := b.Apply(c.ctx, c.source, dry)
			var p *wire.Problem
			if !errors.As(err, &p) || p.Code != c.code {
				t.Fatalf("got %v, want %s", err, c.code)
			}
			for _, word := range c.telltales {
				if strings.Contains(err.Error(), word) != c.tells {
					t.Errorf("%s tells=%v: %v", c.code, c.tells, err)
				}
			}
		}
	}
	if b.M.Apps["vault"].Revision != 1 || len(b.M.Apps) != 1 {
		t.Error("something was changed")
	}
	// Deleting: what is going on there is not told either.
	if err := b.Delete(t.Context(), "vault"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Apply(as("shop"), roottest.App("shop", "vault", 1, ""), false); roottest.Code(err) != "name-taken" {
		t.Errorf("%v", err)
	}
}

// TestObjectQuota: objects count in the quota of their namespace.
func TestObjectQuota(t *testing.T) {
	b := roottest.NewBackend(t, bustest.NewMemStore())
	ctx := t.Context()
	if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "shop",
		Quota: wire.Quota{Objects: 10}}); err != nil {
		t.Fatal(err)
	}
	put := func(name, content string) error {
		_, err := b.PutObject(ctx, rest.ObjectUpload{Namespace: "shop", Name: name, Size: int64(len(content)),
			Body: strings.NewReader(content)})
		return err
	}
	if err := put("a", "123456"); err != nil {
		t.Fatal(err)
	}
	if err := put("b", "12345"); roottest.Code(err) != "over-quota" {
		t.Errorf("more than the quota: %v", err)
	}
	if v, err := b.Namespace(ctx, "shop"); err != nil || v.Used.Objects != 6 || v.Quota.Objects != 10 {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := b.SetQuota(ctx, "shop", wire.Quota{Objects: 11}); err != nil || v.Used.Objects != 6 {
		t.Errorf("%+v, %v", v, err)
	}
	if err := put("b", "12345"); err != nil {
		t.Error(err)
	}
	if list, err := b.Namespaces(ctx); err != nil || len(list) != 2 || list[1].Used.Objects != 11 {
		t.Errorf("%+v, %v", list, err)
	}
}
