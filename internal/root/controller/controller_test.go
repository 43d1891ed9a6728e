package controller_test

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
)

// What cannot be stored is neither told to a cluster nor said in an event, and is decided again
// once it can be.
func TestNothingIsToldBeforeItIsStored(t *testing.T) {
	c := roottest.NewRunningCore(t)
	store := c.RecordStore.(*bustest.MemStore)
	core.Do(c, func(m *state.Model) {
		next := *m.Apps["app"]
		spec, web := *next.Spec, *next.Spec.Services["web"]
		web.Replicas = api.Replicas{Min: 2, Max: 2}
		spec.Services = map[string]*api.Service{"web": &web}
		next.Revision, next.Spec = 2, &spec
		m.Apps["app"] = &next
		if _, err := store.Put(t.Context(), state.KeyApp+"app", roottest.JSON(t, next)); err != nil {
			t.Fatal(err)
		}
	})
	instances := func() (n int) {
		core.Do(c, func(m *state.Model) { n = m.Shares["good.app.web"].Max })
		return n
	}
	said := len(c.EventRing.After(t.Context(), 0, 0).Events)
	full := errors.New("disk full")
	store.FailWrites(full)
	if _, err := controller.Pass(t.Context(), c, time.Now(), true); !errors.Is(err, full) {
		t.Fatalf("%v, want %v", err, full)
	}
	if n := instances(); n != 1 {
		t.Errorf("%d instances are delegated, and stored is 1", n)
	}
	if n := len(c.EventRing.After(t.Context(), 0, 0).Events); n != said {
		t.Errorf("%d events of what is not stored", n-said)
	}
	store.FailWrites(nil)
	if roottest.Pass(t, c); instances() != 2 {
		t.Errorf("%d instances are delegated after the disk was free again, want 2", instances())
	}
}
