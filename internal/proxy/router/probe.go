package router

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/local"
)

// maxProbes at a time.
const maxProbes = 8

// RunProber looks after what is ejected. It sleeps without a timer while
// nothing is.
//
// A round may take long where many workers are gone; what is ready again on this
// one does not wait for it.
func (r *Services) RunProber(ctx context.Context) {
	var rounds sync.WaitGroup
	defer rounds.Wait()
	var round chan struct{} // closed when the round under way is over; nil: none is
	for {
		var timer <-chan time.Time
		if next, any := r.nextProbe(); any && round == nil {
			timer = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-r.localChanged:
			r.Local.SettleAll()
			r.askLocal()
			r.probeDue(ctx, true)
		case <-r.probe:
			// Something was ejected: look at the times again.
		case <-round:
			round = nil
		case <-timer:
			done := make(chan struct{})
			round = done
			rounds.Go(func() {
				defer close(done)
				r.probeDue(ctx, false)
			})
		}
	}
}

// nextProbe returns the earliest time at which a probe is due.
func (r *Services) nextProbe() (first time.Time, any bool) {
	for _, s := range r.table.Load().services {
		s.mu.Lock()
		for _, e := range s.endpoints {
			if due, ok := e.health.ProbeDue(); ok && s.view.Endpoints[e.index].Ready && (!any || due.Before(first)) {
				first, any = due, true
			}
		}
		s.mu.Unlock()
	}
	return first, any
}

// askLocal takes local instances that are not ready out of the rotation, and has
// those probed at once that are.
func (r *Services) askLocal() {
	for _, s := range r.table.Load().services {
		port := s.firstPort()
		if port == "" {
			continue
		}
		for _, e := range s.All() {
			if !e.Local {
				continue
			}
			_, err := r.Local.Opts.Local.Target(e.Instance, port)
			asleep := errors.Is(err, local.ErrAsleep)
			s.sleeps(e, asleep)
			if err != nil && !asleep {
				r.Eject(e, err.Error())
				e.park(true)
				continue
			}
			e.park(false)
			s.setHealthIfEjected(e, func(h route.Health) route.Health { return h.ProbeNow(time.Now()) })
		}
	}
}

// probeDue probes what is due, or only what of it is on this worker. Endpoints behind the same address share the fate
// of its first probe if the address itself does not answer.
func (r *Services) probeDue(ctx context.Context, localOnly bool) {
	groups := map[string][]*Endpoint{}
	now := time.Now()
	for _, s := range r.table.Load().services {
		s.mu.Lock()
		for _, e := range s.endpoints {
			if localOnly && !e.Local {
				continue
			}
			if due, ok := e.health.ProbeDue(); ok && !due.After(now) && s.view.Endpoints[e.index].Ready {
				group := e.Address
				if e.Local {
					group = e.id
				}
				groups[group] = append(groups[group], e)
			}
		}
		s.mu.Unlock()
	}
	slots := make(chan struct{}, maxProbes)
	var wg sync.WaitGroup
	for _, group := range groups {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r.probeGroup(ctx, group)
		})
	}
	wg.Wait()
}

func (r *Services) probeGroup(ctx context.Context, group []*Endpoint) {
	for _, e := range group {
		err := r.probeOne(ctx, e)
		var oe *failure.OpenError
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.readmit(e)
		case errors.As(err, &oe) && oe.Blame == failure.BlameWorker:
			r.lose(group, oe.Err.Error())
			return
		default:
			// Also where the fault is here: the next probe is put off.
			r.Eject(e, err.Error())
		}
	}
}

func (r *Services) probeOne(ctx context.Context, e *Endpoint) error {
	conn, release, err := r.connect(ctx, e, e.service.firstPort(), ForProbe)
	if err != nil {
		return err
	}
	defer release()
	_ = conn.Close() // it was there, which is all that is asked
	return nil
}
