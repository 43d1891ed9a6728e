package cluster

import (
	"cmp"
	"context"
	"fmt"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"maps"
	"time"
)

// again are the marks of restarts of one service that were asked for at this site.
// They say nothing about what is to run, so that they are no local change that
// could get into a conflict: the latest mark counts, wherever it was made.
type again struct {
	V         int                  `json:"v"`
	Restart   *wire.Restart        `json:"restart,omitempty"`
	RestartOf map[int]wire.Restart `json:"restart_of,omitempty"`
}

// on puts the marks into a share, where they are later than those there.
func (a *again) on(s *wire.Share) *wire.Share {
	if a == nil || s == nil {
		return s
	}
	next := *s
	if a.Restart != nil && (s.Restart == nil || s.Restart.N < a.Restart.N) {
		next.Restart = a.Restart
	}
	if len(a.RestartOf) > 0 {
		next.RestartOf = maps.Clone(s.RestartOf)
		if next.RestartOf == nil {
			next.RestartOf = map[int]wire.Restart{}
		}
		for o, r := range a.RestartOf {
			if next.RestartOf[o].N < r.N {
				next.RestartOf[o] = r
			}
		}
	}
	return &next
}

// restartLocal marks what runs of an application here to be started again.
func (c *core) restartLocal(ctx context.Context, app string, q wire.RestartRequest, now time.Time) (wire.RestartResult, error) {
	res := wire.RestartResult{Name: app, Instances: []wire.InstanceID{}}
	if q.Ordinal != nil && q.Service == "" {
		return res, wire.Problemf(422, "invalid-request", "say which service it is of", "the request is not valid", "an ordinal without a service")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.beginEdit(ctx, app, now); err != nil {
		return res, err
	}
	t := c.m.begin()
	for _, i := range t.Instances() {
		if i.App != app {
			continue
		}
		res.N = max(res.N, i.Restarted)
		if (q.Service == "" || i.Service == q.Service) && (q.Ordinal == nil || i.Ordinal == *q.Ordinal) && t.wanted(i) {
			res.Instances = append(res.Instances, i.ID)
		}
	}
	var keys []string
	for key, s := range c.m.Shares {
		if s.App != app {
			continue
		}
		if s.Restart != nil {
			res.N = max(res.N, s.Restart.N)
		}
		for _, r := range s.RestartOf {
			res.N = max(res.N, r.N)
		}
		if s.Stop != nil {
			res.N = max(res.N, s.Stop.N)
		}
		if rec := c.m.jobs[key]; rec != nil {
			res.N = max(res.N, rec.Run.Restarted)
		}
		if q.Service == "" || s.Service == q.Service {
			keys = append(keys, key)
		}
	}
	switch {
	case c.m.localRevision(app) == 0:
		return res, c.noApp(app)
	case len(keys) == 0:
		return res, wire.Problemf(404, "no-such-service", "verge get services --app "+app, "there is no such service", "%s.%s is not in cluster %s", app, q.Service, c.name)
	case q.Ordinal != nil && len(res.Instances) == 0:
		return res, c.noInstance(instanceID(app, q.Service, *q.Ordinal))
	}
	res.N++
	mark := wire.Restart{N: res.N, By: rest.Caller(ctx), At: now.Round(0), Why: q.Reason}
	marks := map[string]*again{}
	for _, key := range keys {
		a := &again{V: wire.Version, Restart: &mark} // takes the place of those of instances
		if q.Ordinal != nil {
			a.Restart, a.RestartOf = nil, map[int]wire.Restart{*q.Ordinal: mark}
			if old := c.m.again[key]; old != nil {
				a.Restart = old.Restart
				for o, r := range old.RestartOf {
					if _, same := a.RestartOf[o]; !same && c.m.Insts[instanceID(app, q.Service, o)] != nil {
						a.RestartOf[o] = r
					}
				}
			}
		}
		marks[key] = a
	}
	if err := c.mark(ctx, marks); err != nil {
		return wire.RestartResult{}, err
	}
	what := "application/" + app
	if q.Ordinal != nil {
		what = "instance/" + res.Instances[0]
	}
	c.events.Add(now, c.m.Tier(), what, fmt.Sprintf("%s (local)", asked(mark)))
	return res, nil
}

// mark stores marks and makes them count. The mutex is held.
func (c *core) mark(ctx context.Context, marks map[string]*again) error {
	t := c.m.begin()
	maps.Copy(t.again, marks)
	if _, left, err := c.keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		return unstored(cmp.Or(err, left))
	}
	loop.Poke(c.wake)
	return nil
}
