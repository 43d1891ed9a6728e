package router

import (
	"context"
	"errors"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

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
	wait := netconn.WaitOrDone(ctx)
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
