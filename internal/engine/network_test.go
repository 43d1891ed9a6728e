package engine

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/wire"
)

// fakeNetwork gives places once Set was told of one and did not fail.
type fakeNetwork struct {
	network.Overlay // of what it does not do nothing is called

	mu    sync.Mutex
	fail  error
	known bool
}

func (n *fakeNetwork) Start(context.Context)      {}
func (n *fakeNetwork) Close()                     {}
func (n *fakeNetwork) Changed()                   {}
func (n *fakeNetwork) PeersChanged()              {}
func (n *fakeNetwork) Settle() error              { return nil }
func (n *fakeNetwork) Keep(overlay.Instance) bool { return true }

func (n *fakeNetwork) setFail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail = err
}

func (n *fakeNetwork) Set(w *wire.Network, _ []wire.Route) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w != nil && n.fail == nil {
		n.known = true
	}
	return n.fail
}

func (n *fakeNetwork) Attach(overlay.Instance) (overlay.Attachment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known {
		return overlay.Attachment{}, overlay.ErrNoLease
	}
	return overlay.Attachment{NetNS: "/run/netns", Addrs: []netip.Addr{netip.MustParseAddr("fd12::1")}}, nil
}

// A worker that could not take up its place in the service network, since something was in
// the way, tries it again with whatever it is told next, also where that is about routes
// alone; then what waits for a place starts. So does a successor.
func TestAPlaceThatCouldNotBeTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, again := range []bool{false, true} {
			r, n := newRig(t), &fakeNetwork{}
			r.network = n
			r.start()
			o := engineapi.EngineOrders{
				V: wire.Version, Have: wire.Rev{Inc: "a", N: 1}, Orders: []wire.Order{order(0, 1, 100)},
				Network: &wire.Network{V: wire.Version},
			}
			n.setFail(errors.New("its addresses are those of another network of this machine"))
			if err := r.e.Apply(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if again {
				r.stop()
				r.start()
			}
			after(0)
			if s := r.status("shop.web.0"); s.Phase != wire.PhasePending ||
				!strings.Contains(s.Why, "place in the service network") {
				t.Fatalf("without a place it is %s: %s", s.Phase, s.Why)
			}
			n.setFail(nil)
			if err := r.e.Change(t.Context(),
				engineapi.EngineChanges{V: wire.Version, From: o.Have, To: wire.Rev{Inc: "a", N: 2}}); err != nil {
				t.Fatal(err)
			}
			after(0)
			if s := r.status("shop.web.0"); s.Phase != wire.PhaseRunning {
				t.Errorf("with a place it is %s: %s (successor: %t)", s.Phase, s.Why, again)
			}
			r.stop()
		}
	})
}
