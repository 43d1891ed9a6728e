package profiles

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/enginetest"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// router answers at once.
type router struct {
	Router
	asked atomic.Int64
}

func (r *router) Ask(wire.InstanceID, string, *http.Request) (int, error) {
	r.asked.Add(1)
	return http.StatusOK, nil
}
func (r *router) Places(wire.InstanceID) int { return 2 }

// A profile keeps an instance busy until who began it ends it; another service can be
// profiled meanwhile, the same one cannot.
func TestAProfileIsOfOne(t *testing.T) {
	var wg sync.WaitGroup
	r := &router{}
	x := New(Options{
		Worker: "w1", Router: r, Log: slog.New(slog.DiscardHandler),
		Order: func(id wire.InstanceID) (wire.Order, error) {
			if id != "shop.web.0" {
				return wire.Order{}, state.ErrNoInstance
			}
			return enginetest.Order(0, 1, 100), nil
		},
		Start: func(f func(context.Context)) error { wg.Go(func() { f(t.Context()) }); return nil },
	})
	ask := rpc.ProfileAsk{App: "shop", Service: "web", Key: "12345678", Do: rpc.ProfileStart,
		Instances: []string{"shop.web.0"}, Load: &rpc.ProfileLoad{For: api.Duration(time.Minute)}}
	got, err := x.Step(&ask, "ann")
	if err != nil || got.Nodes[0].Concurrency != 2 || got.State != rpc.ProfileRuns {
		t.Fatalf("%+v, %v", got, err)
	}
	refused := func(want string, owner string, change func(*rpc.ProfileAsk)) {
		t.Helper()
		q := ask
		change(&q)
		var p *wire.Problem
		if _, err := x.Step(&q, owner); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refused("profiled-already", "ann", func(q *rpc.ProfileAsk) { q.Key = "87654321" })
	refused("not-profiled", "bob", func(q *rpc.ProfileAsk) { q.Do = rpc.ProfileLook })
	gone := ask
	gone.App, gone.Instances = "other", []string{"shop.db.0"}
	if _, err := x.Step(&gone, "ann"); !errors.Is(err, state.ErrNoInstance) {
		t.Errorf("an instance that is not here: %v", err)
	}
	ask.Do = rpc.ProfileEnd
	if _, err := x.Step(&ask, "ann"); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
