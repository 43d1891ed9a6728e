package router

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/policy/eject"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/sockets"
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
			s.setHealthIfEjected(e, func(h eject.Health) eject.Health { return h.ProbeNow(time.Now()) })
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

// Looking after connections to a worker that is believed dead.
const (
	// firstDoubt after its cluster began to doubt it, doubling to lastDoubt.
	firstDoubt = 10 * time.Second
	lastDoubt  = time.Minute
	// againDoubt is the pause between two probes that must both fail.
	againDoubt = 3 * time.Second
)

// doubt looks after the connections to a worker that its cluster does not believe
// to be there: gone, since an endpoint was taken out of the routes, or else
// suspect. They are cut only if the worker cannot be reached from here either: a
// worker that lost its cluster goes on serving, and an instance that drains is no
// reason to break what is open. Where that is known already when the endpoint is
// gone, two have said it, and they are cut at once: what was sent to a silent
// worker would only go on waiting.
func (r *Services) doubt(e *Endpoint, gone bool) {
	if e.Local || e.Address == "" {
		return
	}
	if gone && e.Lost.Load() && r.withdrawn(e.Address) {
		r.cutAll(e)
		return
	}
	left := r.dialer.Paths.Begin(e.Address, gone)
	if left == nil {
		return
	}
	if !r.Opts.Spawn(func(ctx context.Context) {
		r.lookAfter(ctx, e, gone, left)
		for !r.dialer.Paths.End(e.Address, left) {
			r.lookAfter(ctx, e, true, left)
		}
	}) {
		r.dialer.Paths.End(e.Address, left)
	}
}

func (r *Services) lookAfter(ctx context.Context, e *Endpoint, gone bool, left <-chan struct{}) {
	wait := sockets.WaitOrDone(ctx)
	for pause := firstDoubt; ; pause = min(2*pause, lastDoubt) {
		if !gone {
			t := time.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-t.C:
			case <-left:
				gone = true
			}
			t.Stop()
		}
		if ctx.Err() != nil || len(r.dialer.Paths.To(e.Address)) == 0 || (!gone && !r.suspected(e.Address)) {
			return
		}
		dead := !r.reaches(ctx, e)
		if dead && !(gone && r.withdrawn(e.Address)) {
			dead = wait(againDoubt) && !r.reaches(ctx, e)
		}
		switch {
		case dead && ctx.Err() == nil:
			r.cutAll(e)
			return
		case gone:
			return
		}
	}
}

// cutAll cuts what is open to the worker of an endpoint.
func (r *Services) cutAll(e *Endpoint) {
	conns := r.dialer.Paths.To(e.Address)
	if len(conns) > 0 {
		r.Opts.Log.Info("connections cut: their worker is believed dead and does not answer", "worker", e.Worker, "address", e.Address, "connections", len(conns))
	}
	for _, conn := range conns {
		netconn.Cut(conn)
	}
}

// withdrawn says whether no endpoint behind an address is in the routes any more:
// its cluster has given up the worker, not only an instance of it.
func (r *Services) withdrawn(addr string) bool { return len(r.table.Load().byAddress[addr]) == 0 }

// reaches says whether the worker of an endpoint answers, whatever it says.
func (r *Services) reaches(ctx context.Context, e *Endpoint) bool {
	conn, release, err := r.connect(ctx, e, e.service.firstPort(), ForProbe)
	if err == nil {
		_ = conn.Close() // it was there, which is all that is asked
		release()
		return true
	}
	var oe *failure.OpenError
	return !errors.As(err, &oe) || oe.Blame != failure.BlameWorker
}

// suspected says whether an endpoint behind an address is suspect.
func (r *Services) suspected(addr string) bool {
	for _, e := range r.table.Load().byAddress[addr] {
		if e.service.isSuspect(e) {
			return true
		}
	}
	return false
}
