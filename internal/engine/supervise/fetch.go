package supervise

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/registry"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/wire"
)

// Pace of retries while a registry or containerd is away.
const (
	AwayFirst = 2 * time.Second
	awayMost  = time.Minute
)

// fetch provides what an order needs before its start, such as the image, which may take minutes.
// It ends early when the goal changes. ready is false where nothing has failed and it is not there
// yet. ahead: the instance sleeps.
func (in *Instance) fetch(ctx context.Context, o *wire.Order, ahead bool) (ready bool, err error) {
	driver, ok := in.deps.Drivers[state.RuntimeOf(o)].(runtime.Imager)
	if !ok {
		return true, nil
	}
	if s, ok := driver.(runtime.Stocked); ok && s.Stocked(in.spec(o)) {
		in.awayFor = 0
		return true, nil
	}
	spec := in.spec(o)
	if err := in.login(o, &spec); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	steps := make(chan string)
	done := make(chan error, 1)
	tell := func(step string) {
		select {
		case steps <- step:
		case <-ctx.Done():
		}
	}
	go func() {
		err := driver.Fetch(ctx, spec, tell)
		if errors.Is(err, runtime.ErrNoRoom) && in.deps.MakeRoom(ctx) {
			err = driver.Fetch(ctx, spec, tell)
		}
		done <- err
	}()
	for {
		select {
		case step := <-steps:
			if in.awayFor > 0 && in.awayReason != "" {
				step += ", again after: " + in.awayReason // else it would be readable only between two tries
			}
			in.rec.Why = step
			in.show(wire.PhasePending, reason{text: step}, o)
		case <-in.wake:
			// A fetch for a sleeping instance continues when it is woken.
			g := in.Goal()
			if (g.Kind == plan.Run || ahead && g.Kind == plan.Sleep) && state.SameRun(&g.Order, o) {
				continue
			}
			cancel() // what is here already is kept
			<-done   //nolint:errcheck // it was ended
			in.Poke()
			return false, nil
		case err := <-done:
			switch {
			case err == nil:
				in.awayFor = 0
				return true, nil
			case ctx.Err() != nil:
				return false, nil
			case errors.Is(err, runtime.ErrAway) && !ahead:
				in.holdFor(err)
				return false, nil
			}
			return false, err
		}
	}
}

// login lets a pull log in to its registry, where the service has a secret for that.
func (in *Instance) login(o *wire.Order, s *runtime.Spec) error {
	if s.Container == nil || o.Spec.PullSecret == "" {
		return nil
	}
	known, err := in.deps.Secrets.OpenAll(wire.OrderNamespace(o), []string{o.Spec.PullSecret})
	if err != nil {
		return err
	}
	logins, err := registry.Parse(known[o.Spec.PullSecret])
	if err != nil {
		return fmt.Errorf("secret %s has no credentials for a registry: %w", o.Spec.PullSecret, err)
	}
	image := s.Container.Image
	if full, err := imagestore.FullName(image); err == nil {
		image = full
	}
	s.Container.Login = func(host string) (user, secret string) {
		l, _ := logins.For(image, host)
		return l.User, l.Secret
	}
	return nil
}

// fetchAhead provides what a sleeping instance is started from, once for each order, so that a
// request that wakes it waits for no download and no compiler. A failure is shown, and the start
// tries again. True if there was something to do.
func (in *Instance) fetchAhead(ctx context.Context, o *wire.Order) bool {
	if in.fetchedFor.ID != "" && state.SameRun(&in.fetchedFor, o) {
		return false
	}
	if _, ok := in.deps.Drivers[state.RuntimeOf(o)].(runtime.Imager); !ok {
		return false
	}
	in.fetchProblem = ""
	ready, err := in.fetch(ctx, o, true)
	if err != nil {
		in.log.Info("not ready to be woken", "error", err)
		in.fetchProblem = err.Error()
	}
	if ready || err != nil {
		in.fetchedFor = *o
	}
	return true
}

// holdFor puts a start off because something else than the instance is away.
func (in *Instance) holdFor(err error) {
	in.awayFor, in.awayReason = min(max(2*in.awayFor, AwayFirst), awayMost), err.Error()
	in.rec.Why = fmt.Sprintf("waiting: %v; trying again in %s", err, in.awayFor)
	in.due = time.Now().Add(in.awayFor)
	in.trouble = "what it needs to be started is out of reach of its worker"
	in.show(wire.PhasePending, in.reason(), &in.rec.Order)
	in.deps.Changed() // requests do not wait that long
}
