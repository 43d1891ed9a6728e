package planner_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// Through the whole interface: a plan is refused as an apply is, and stores nothing.
func TestAPlanChangesNothing(t *testing.T) {
	ctx := access.With(context.Background(), access.Who{Name: "admin", Admin: true})
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	look := func() string {
		return roottest.Text(t, b.M) + fmt.Sprint(store.Rev(), b.EventRing.After(ctx, 0, 0))
	}
	before := look()
	p, err := b.Plan(ctx, []byte(roottest.Shop))
	if err != nil || p.Change != "created" || p.Revision != 1 || p.Changes != 2 || p.Waits != 4 || p.Placed ||
		p.Namespace != "default" {
		t.Fatalf("%+v, %v", p, err)
	}
	if !strings.Contains(p.Instances[0].Why, "no cluster has joined yet") {
		t.Errorf("%+v", p.Instances[0])
	}
	if look() != before {
		t.Error("it has changed something")
	}
	if _, err := b.Plan(ctx, []byte("application: x\nservices: 7\n")); roottest.Code(err) != "invalid-descriptor" {
		t.Error(err)
	}
	if _, err := b.Plan(ctx, []byte("application: x\nnamespace: none\nservices: {a: {command: [x]}}\n")); roottest.Code(err) != "no-such-namespace" {
		t.Error(err)
	}
	if _, err := b.CreateNamespace(ctx, apiv1.NamespaceRequest{Name: "small",
		Quota: wire.Quota{Instances: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Plan(ctx, []byte("application: x\nnamespace: small\nservices: {a: {command: [x], replicas: "+
		"2}}\n")); roottest.Code(err) != "over-quota" {
		t.Error(err)
	}
	if _, err := b.Apply(ctx, []byte(roottest.Shop), false); err != nil {
		t.Fatal(err)
	}
	before = look()
	p, err = b.Plan(ctx, []byte(strings.Replace(roottest.Shop, "replicas: 3", "replicas: 1", 1)))
	if err != nil || p.Change != "updated" || p.Revision != 2 || p.Changes != 1 ||
		p.Services[1].Change != apiv1.ServiceScaled || p.Services[0].Change != apiv1.ServiceUnchanged {
		t.Errorf("%+v, %v", p, err)
	}
	if look() != before {
		t.Error("it has changed something")
	}
}
