package root

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Restart implements rest.Backend. What it stores is a mark: instances that were
// started before it are behind it, whoever was away meanwhile.
func (b backend) Restart(ctx context.Context, name string, q wire.RestartRequest) (wire.RestartResult, error) {
	if _, err := b.gate(ctx, wire.GateRestart, name, "what runs of it is to be started again"); err != nil {
		return wire.RestartResult{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	old, err := b.changeable(ctx, name, now)
	if err != nil {
		return wire.RestartResult{}, err
	}
	if q.Service != "" && old.Spec.Services[q.Service] == nil {
		return wire.RestartResult{}, wire.Problemf(404, "no-such-service", "verge get services --app "+name, "there is no such service", "%s.%s is not known", name, q.Service)
	}
	if q.Ordinal != nil && q.Service == "" {
		return wire.RestartResult{}, wire.Problemf(422, "invalid-request", "say which service it is of", "the request is not valid", "an ordinal without a service")
	}
	res := wire.RestartResult{Name: name, N: b.m.nextRestart(old), Instances: []wire.InstanceID{}}
	for _, i := range b.m.reads().instances(name) {
		if (q.Service == "" || i.Service == q.Service) && (q.Ordinal == nil || i.Ordinal == *q.Ordinal) && !i.Draining {
			res.Instances = append(res.Instances, i.ID)
		}
	}
	if q.Ordinal != nil && len(res.Instances) == 0 {
		return wire.RestartResult{}, wire.Problemf(404, "no-such-instance", "verge get instances --app "+name, "there is no such instance", "%s is not known", instanceID(name, q.Service, *q.Ordinal))
	}
	next := *old
	next.Unclaimed = nil
	next.Restarts = b.m.marked(old, q, wire.Restart{N: res.N, By: rest.Caller(ctx), At: now, Why: q.Reason})
	if err := b.putApp(ctx, &next); err != nil {
		return wire.RestartResult{}, err
	}
	what := "application/" + name
	if q.Ordinal != nil {
		what = "instance/" + res.Instances[0]
	}
	text := "restart asked for"
	if q.Service != "" {
		text = "restart of " + q.Service + " asked for"
	}
	if by := rest.Caller(ctx); by != "" {
		text += " by " + by
	}
	if q.Reason != "" {
		text += ": " + q.Reason
	}
	b.events.Add(now, tier, what, text)
	return res, nil
}

// nextRestart is the N of a new mark of app: greater than that of any that was
// given or heeded, even if this root was restored from an older copy since.
func (m *model) nextRestart(app *wire.Application) uint64 {
	var last uint64
	for _, r := range app.Restarts {
		last = max(last, r.N)
	}
	for _, r := range app.Stops {
		last = max(last, r.N)
	}
	for _, c := range m.clusters {
		for _, svc := range app.Spec.ServiceNames() {
			if r := c.jobs[app.Name+"."+svc]; r != nil {
				last = max(last, r.Run.Restarted, r.Stopped)
			}
		}
		for _, rep := range c.seen {
			if rep.App == app.Name {
				last = max(last, rep.Restarted)
			}
		}
	}
	return last + 1
}

// marked are the marks of app with a new one for what q names. A mark of a
// service takes the place of those of its instances; those of instances that are
// no more are dropped.
func (m *model) marked(app *wire.Application, q wire.RestartRequest, r wire.Restart) map[string]wire.Restart {
	out := maps.Clone(app.Restarts)
	if out == nil {
		out = map[string]wire.Restart{}
	}
	for key := range out {
		svc, ordinal, single := strings.Cut(key, ".")
		covered := q.Ordinal == nil && (q.Service == "" || q.Service == svc)
		if app.Spec.Services[svc] == nil || single && (covered || m.insts[app.Name+"."+svc+"."+ordinal] == nil) {
			delete(out, key)
		}
	}
	for _, svc := range app.Spec.ServiceNames() {
		switch {
		case q.Service != "" && q.Service != svc:
		case q.Ordinal != nil:
			out[svc+"."+strconv.Itoa(*q.Ordinal)] = r
		default:
			out[svc] = r
		}
	}
	return out
}

// restart puts the marks into the shares that are to be. A mark of a service goes
// to one cluster after the other, each when what the one before runs of it has
// been started again and is ready: a cluster alone cannot know what its siblings
// are doing. What was given stays given.
func (t *tx) restart(want map[string]*wire.Share) {
	bySvc := map[string][]string{} // keys of want by app.service, in order of clusters
	for _, key := range records.SortedKeys(want) {
		s := want[key]
		app := t.m.apps[s.App]
		if app == nil || len(app.Restarts) == 0 {
			continue
		}
		for _, sp := range s.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				if r, ok := app.Restarts[s.Service+"."+strconv.Itoa(o)]; ok {
					if s.RestartOf == nil {
						s.RestartOf = map[int]wire.Restart{}
					}
					s.RestartOf[o] = r
				}
			}
		}
		if _, ok := app.Restarts[s.Service]; ok {
			bySvc[s.App+"."+s.Service] = append(bySvc[s.App+"."+s.Service], key)
		}
	}
	for _, keys := range bySvc {
		r := t.m.apps[want[keys[0]].App].Restarts[want[keys[0]].Service]
		busy := false
		var wait []string
		for _, key := range keys {
			if want[key].Spec.Job != nil { // another run, which begins everywhere
				want[key].Restart = &r
				continue
			}
			old := t.m.shares[key]
			ready, done := t.progress(key, want[key], r.N)
			switch {
			case old == nil, old.Restart != nil && old.Restart.N >= r.N, !ready:
				// New, or going on, or of no use to anybody as it is.
				want[key].Restart = &r
				busy = busy || !done
			default:
				want[key].Restart = old.Restart
				wait = append(wait, key)
			}
		}
		if len(wait) > 0 && !busy {
			want[wait[0]].Restart = &r
		}
	}
}

// progress of a restart in one cluster: whether anything of the share is ready,
// or was and is on its way to be again; and whether all of it has been started
// again and is ready. A cluster that is away is not waited for.
func (t *tx) progress(key string, s *wire.Share, n uint64) (ready, done bool) {
	name, _, _ := strings.Cut(key, ".")
	c := t.m.clusters[name]
	if c == nil || c.suspect {
		return true, true
	}
	done = true
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To; o++ {
			rep := c.seen[instanceID(s.App, s.Service, o)]
			if rep == nil {
				done = done && c.everHeard
				continue
			}
			completed := rep.State == wire.Terminated
			answers := rep.State == wire.Running && rep.Ready || rep.Asleep
			ready = ready || answers || completed || rep.State == wire.WorkerScheduled
			done = done && (answers || completed) && rep.Restarted >= n
		}
	}
	return ready || !c.everHeard, done
}

// sameRestarts compares the marks of two shares.
func sameRestarts(a, b *wire.Share) bool {
	same := func(a, b wire.Restart) bool { return a.N == b.N && a.By == b.By && a.Why == b.Why && a.At.Equal(b.At) }
	if (a.Restart == nil) != (b.Restart == nil) || a.Restart != nil && !same(*a.Restart, *b.Restart) {
		return false
	}
	return maps.EqualFunc(a.RestartOf, b.RestartOf, same)
}
