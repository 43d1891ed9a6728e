package edits_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

func TestScaleChangesTheDescriptor(t *testing.T) {
	ctx := context.Background()
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	if _, err := b.Scale(ctx, "shop", "web", 5); roottest.Code(err) != "no-such-application" {
		t.Errorf("%v", err)
	}
	if _, err := b.Apply(ctx, []byte(roottest.Shop), false); err != nil {
		t.Fatal(err)
	}
	r, err := b.Scale(ctx, "shop", "web", 5)
	if err != nil || r.Revision != 2 || r.Change != "updated" {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := b.Scale(ctx, "shop", "web", 5); err != nil || r.Revision != 2 || r.Change != "unchanged" {
		t.Errorf("the same again: %+v, %v", r, err)
	}
	if _, err := b.Scale(ctx, "shop", "wbe", 5); roottest.Code(err) != "cannot-scale" {
		t.Errorf("%v", err)
	}
	// It is as durable as an apply: another process says the same.
	again := roottest.NewBackend(t, store)
	v, err := again.Application(ctx, "shop")
	if err != nil || v.Revision != 2 || !strings.Contains(v.Descriptor, "replicas: 5 # enough") ||
		v.Services[1].Wanted != 5 {
		t.Errorf("%+v, %v", v, err)
	}
	// Another file wins, and says so; one that says the same does not.
	r, err = again.Apply(ctx, []byte(strings.Replace(roottest.Shop, "replicas: 3", "replicas: 5",
		1)+"  cache: {command: [z]}\n"), false)
	if err != nil || r.Revision != 3 || len(r.Warnings) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = again.Apply(ctx, []byte(roottest.Shop), false)
	if err != nil || r.Revision != 4 || len(r.Warnings) != 1 ||
		!strings.Contains(r.Warnings[0], "services.web.replicas: 5, set by verge scale") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = again.Apply(ctx, []byte(strings.Replace(roottest.Shop, "3", "4", 1)), false); err != nil ||
		len(r.Warnings) != 0 {
		t.Errorf("said twice: %+v, %v", r, err)
	}
	if err := again.Delete(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Scale(ctx, "shop", "web", 1); roottest.Code(err) != "deleting" {
		t.Errorf("%v", err)
	}
}

func TestScaleThatCannotBeStoredChangesNothing(t *testing.T) {
	ctx := context.Background()
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	if _, err := b.Apply(ctx, []byte(roottest.Shop), false); err != nil {
		t.Fatal(err)
	}
	store.FailWrites(errors.New("disk full"))
	if _, err := b.Scale(ctx, "shop", "web", 5); roottest.Code(err) != "not-stored" {
		t.Errorf("%v", err)
	}
	store.FailWrites(nil)
	if v, err := b.Application(ctx, "shop"); err != nil || v.Services[1].Wanted != 3 || v.Revision != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestRestartIsStored(t *testing.T) {
	ctx := context.Background()
	store := bustest.NewMemStore()
	b := roottest.NewBackend(t, store)
	if _, err := b.Restart(ctx, "shop", apiv1.RestartRequest{}); roottest.Code(err) != "no-such-application" {
		t.Error(err)
	}
	if _, err := b.Apply(ctx, []byte(roottest.Shop), false); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Pass(ctx, b.Core, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	two, nine := 2, 9
	for _, tc := range []struct {
		q    apiv1.RestartRequest
		code string
		n    int
		want []string // marks after it
	}{
		{apiv1.RestartRequest{Service: "wbe"}, "no-such-service", 0, nil},
		{apiv1.RestartRequest{Ordinal: &two}, "invalid-request", 0, nil},
		{apiv1.RestartRequest{Service: "web", Ordinal: &nine}, "no-such-instance", 0, nil},
		{apiv1.RestartRequest{Service: "web", Ordinal: &two}, "", 1, []string{"web.2=1"}},
		{apiv1.RestartRequest{Service: "db"}, "", 1, []string{"db=2", "web.2=1"}},
		{apiv1.RestartRequest{Service: "web"}, "", 3, []string{"db=2", "web=3"}},
		{apiv1.RestartRequest{Service: "web", Ordinal: &two}, "", 1, []string{"db=2", "web=3", "web.2=4"}},
		{apiv1.RestartRequest{Reason: "because"}, "", 4, []string{"db=5", "web=5"}},
	} {
		r, err := b.Restart(ctx, "shop", tc.q)
		if roottest.Code(err) != tc.code || len(r.Instances) != tc.n {
			t.Errorf("%+v: %+v, %v", tc.q, r, err)
		}
		if tc.code != "" {
			continue
		}
		var got []string
		marks := roottest.NewBackend(t, store).M.Apps["shop"].Restarts
		for _, k := range records.SortedKeys(marks) {
			got = append(got, fmt.Sprintf("%s=%d", k, marks[k].N))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: marks %v, want %v", tc.q, got, tc.want)
		}
	}
	// A revision leaves the marks, and a restart makes no revision.
	if r, err := b.Apply(ctx, []byte(strings.Replace(roottest.Shop, "3", "4", 1)), false); err != nil || r.Revision != 2 ||
		b.M.Apps["shop"].Restarts["web"].N != 5 {
		t.Errorf("%+v, %v, marks %v", r, err, b.M.Apps["shop"].Restarts)
	}
	// A root that was restored from a copy does not give out a mark twice.
	b.M.Clusters["edge"] = state.NewCluster(state.ClusterRecord{V: wire.Version, Name: "edge"}, time.Now())
	b.M.Clusters["edge"].Seen["shop.web.0"] = &wire.Reported{Instance: wire.Instance{App: "shop", Restarted: 41}}
	if r, err := b.Restart(ctx, "shop", apiv1.RestartRequest{}); err != nil || r.N != 42 {
		t.Errorf("%+v, %v", r, err)
	}
}
