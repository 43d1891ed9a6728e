package network

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engine/enginetest"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/wire"
)

// fake is a service network that gives places once it has a lease.
type fake struct {
	Overlay // of what it does not do nothing is called
	fail    error
	leased  bool
	closed  bool
}

func (f *fake) Set(n *wire.Network, _ []wire.Route) error {
	f.leased = f.leased || n != nil && f.fail == nil
	return f.fail
}
func (f *fake) Settle() error { return f.fail }
func (f *fake) Clear() error  { return nil }
func (f *fake) Close()        { f.closed = true }
func (f *fake) Attach(overlay.Instance) (overlay.Attachment, error) {
	if !f.leased {
		return overlay.Attachment{}, overlay.ErrNoLease
	}
	return overlay.Attachment{NetNS: "/run/netns", Resolver: []byte("nameserver ::1\n")}, nil
}

func fakeNetwork(f *fake, optional bool) (*Network, *status.Board) {
	log := slog.New(slog.DiscardHandler)
	b := status.NewBoard(engineapi.EngineInfo{Network: &wire.NetworkInfo{Mode: wire.NetworkOverlay}})
	n := New(Options{Board: b, Problems: status.NewProblems(log, b), Log: log, Overlay: f})
	n.optional = optional
	return n, b
}

// An instance waits for the worker's place, which is no failure, and gets its own when that
// is there.
func TestInstancesWaitForThePlace(t *testing.T) {
	f := &fake{}
	n, _ := fakeNetwork(f, false)
	o := enginetest.Order(0, 1, 100)
	if _, err := n.Attach(&o, nil, 0, t.TempDir()); err == nil || !n.Waits(err) {
		t.Errorf("without a place: %v", err)
	}
	if placed, wait := n.Set(&engineapi.EngineOrders{}); placed || wait {
		t.Errorf("without a lease: placed %t, and who must not do without waits for its time: %t", placed, wait)
	}
	if placed, _ := n.Set(&engineapi.EngineOrders{Network: &wire.Network{}}); !placed {
		t.Error("with a lease who waits is not woken")
	}
	if placed, _ := n.Set(&engineapi.EngineOrders{Network: &wire.Network{}}); placed {
		t.Error("the same again is news")
	}
	a, err := n.Attach(&o, nil, 0, t.TempDir())
	if err != nil || a.NetNS != "/run/netns" || !strings.HasSuffix(a.Resolv, resolvFile) {
		t.Errorf("%+v, %v", a, err)
	}
}

// Where it is optional a worker does without it: when there is no place for too long, or one
// that it cannot take.
func TestDoingWithout(t *testing.T) {
	for name, with := range map[string]func(*fake, *Network) bool{
		"no place": func(_ *fake, n *Network) bool {
			_, wait := n.Set(&engineapi.EngineOrders{})
			_, again := n.Set(&engineapi.EngineOrders{})
			return wait && !again && n.GiveUp() && !n.GiveUp()
		},
		"a place that cannot be taken": func(f *fake, n *Network) bool {
			f.fail = errors.New("its addresses are taken")
			placed, _ := n.Set(&engineapi.EngineOrders{Network: &wire.Network{}})
			return placed
		},
	} {
		f := &fake{}
		n, b := fakeNetwork(f, true)
		if !with(f, n) || n.Overlay() != nil || n.Wanted() || !f.closed {
			t.Errorf("%s: it has %v, closed %t", name, n.Overlay(), f.closed)
		}
		o := enginetest.Order(0, 1, 100)
		if a, err := n.Attach(&o, nil, 0, t.TempDir()); err != nil || a.NetNS != "" {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		if s, _, _ := b.Since(0); s.Info.Network.Mode != wire.NetworkLoopback || s.Info.Network.Why == "" {
			t.Errorf("%s: says %+v", name, s.Info.Network)
		}
	}
}
