package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// A write of which nobody knows whether it is stored must not leave memory and
// disk apart, whichever way it went.
func TestAnUnknownOutcomeIsFoundOut(t *testing.T) {
	for _, written := range []bool{true, false} {
		ctx := context.Background()
		store := bustest.NewMemStore()
		c := clustertest.NewCore(t, store)
		store.LoseNextOutcome(written)
		d := uplink.FromRoot(c)
		to := wire.Rev{Inc: "root", N: 7}
		if err := d.Take(ctx, true, []wire.Change{clustertest.ShareChange(t, 2)}, to, nil); !errors.Is(err,
			bus.ErrUnknownOutcome) {
			t.Fatalf("written %v: %v, want an unknown outcome", written, err)
		}
		if _, err := controller.Pass(ctx, c, time.Now(), true); err != nil {
			t.Fatal(err)
		}
		if got := d.Have() == to; got != written {
			t.Errorf("written %v: have %v", written, d.Have())
		}
		if got := c.M.Shares["app.web"] != nil; got != written {
			t.Errorf("written %v: the share is known: %v", written, got)
		}
	}
}

// What cannot be stored is neither acted on nor acknowledged.
func TestAFullDiskChangesNothing(t *testing.T) {
	ctx := context.Background()
	store := bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	store.FailWrites(errors.New("disk full"))
	d := uplink.FromRoot(c)
	if err := d.Take(ctx, true, []wire.Change{clustertest.ShareChange(t, 1)}, wire.Rev{Inc: "root", N: 7},
		nil); err == nil {
		t.Fatal("taken without being stored")
	}
	if len(c.M.Shares) != 0 || !d.Have().IsZero() {
		t.Errorf("have %v, shares %v", d.Have(), c.M.Shares)
	}
	store.FailWrites(nil)
	if err := d.Take(ctx, true, []wire.Change{clustertest.ShareChange(t, 1)}, wire.Rev{Inc: "root", N: 7},
		nil); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Pass(ctx, c, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	if c.M.Insts["app.web.0"] == nil {
		t.Error("the instance was not made after the disk was free again")
	}
}

func TestReportsOfStrangersAreRefused(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	if r := workers.OnReport(context.Background(), c, "nobody", wire.Report{V: wire.Version}); r.Refused == "" {
		t.Error("a worker that is not registered was heard")
	}
}
