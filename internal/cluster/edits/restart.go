package edits

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// RestartLocal marks what runs of an application here to be started again.
func RestartLocal(ctx context.Context, c *core.Core, app string, q apiv1.RestartRequest,
	now time.Time) (apiv1.RestartResult, error) {
	return core.View2(c, func(m *state.Model) (apiv1.RestartResult, error) { return restart(ctx, c, m, app, q, now) })
}

// restart is RestartLocal with the model.
func restart(ctx context.Context, c *core.Core, m *state.Model, app string, q apiv1.RestartRequest,
	now time.Time) (apiv1.RestartResult, error) {
	res := apiv1.RestartResult{Name: app, Instances: []wire.InstanceID{}}
	if q.Ordinal != nil && q.Service == "" {
		return res, wire.Problemf(422, "invalid-request", "say which service it is of", "the request is not valid",
			"an ordinal without a service")
	}
	if _, err := beginEdit(ctx, c, app, now); err != nil {
		return res, err
	}
	t := m.Begin()
	for _, i := range t.Instances() {
		if i.App != app {
			continue
		}
		res.N = max(res.N, i.Restarted)
		if (q.Service == "" || i.Service == q.Service) && (q.Ordinal == nil || i.Ordinal == *q.Ordinal) &&
			instances.Wanted(t, i) {
			res.Instances = append(res.Instances, i.ID)
		}
	}
	var keys []string
	for key, s := range m.Shares {
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
		if rec := jobs.Table.Rows(m.DB)[key]; rec != nil {
			res.N = max(res.N, rec.Run.Restarted)
		}
		if q.Service == "" || s.Service == q.Service {
			keys = append(keys, key)
		}
	}
	switch {
	case localedit.Revision(m, app) == 0:
		return res, NoApp(c, app)
	case len(keys) == 0:
		return res, wire.Problemf(404, "no-such-service", "verge get services --app "+app, "there is no such service",
			"%s.%s is not in cluster %s", app, q.Service, c.ClusterName)
	case q.Ordinal != nil && len(res.Instances) == 0:
		return res, core.NoInstance(c, state.InstanceID(app, q.Service, *q.Ordinal))
	}
	res.N++
	mark := wire.Restart{N: res.N, By: rest.Caller(ctx), At: now.Round(0), Why: q.Reason}
	marks := map[string]*localedit.Again{}
	for _, key := range keys {
		a := &localedit.Again{V: wire.Version, Restart: &mark} // takes the place of those of instances
		if q.Ordinal != nil {
			a.Restart, a.RestartOf = nil, map[int]wire.Restart{*q.Ordinal: mark}
			if old := localedit.AgainTable.Rows(m.DB)[key]; old != nil {
				a.Restart = old.Restart
				for o, r := range old.RestartOf {
					if _, same := a.RestartOf[o]; !same && m.Insts[state.InstanceID(app, q.Service, o)] != nil {
						a.RestartOf[o] = r
					}
				}
			}
		}
		marks[key] = a
	}
	if err := Mark(ctx, c, marks); err != nil {
		return apiv1.RestartResult{}, err
	}
	kind, name := event.ApplicationRestart, app
	if q.Ordinal != nil {
		kind, name = event.InstanceRestart, res.Instances[0]
	}
	c.EventRing.Note(now, kind, name, fmt.Sprintf("%s (local)", state.Asked(mark)))
	return res, nil
}

// Mark stores marks and makes them count. The caller has the model.
func Mark(ctx context.Context, c *core.Core, marks map[string]*localedit.Again) error {
	t := c.M.Begin()
	maps.Copy(localedit.AgainTable.Changes(t.Rows), marks)
	if _, left, err := c.Keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		return core.Unstored(cmp.Or(err, left))
	}
	loop.Poke(c.Wake)
	return nil
}
