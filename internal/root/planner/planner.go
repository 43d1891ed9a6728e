package planner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/rehearsal"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Rehearse makes a copy of the model in which an application has been applied, and
// begins a plan of it.
func Rehearse(ctx context.Context, c *core.Core,
	accept func(*state.Model) (*record.Application, apiv1.ApplyResult, error), now time.Time) (r *rehearsal.Plan,
	out apiv1.Plan, err error) {
	core.Do(c, func(m *state.Model) {
		if err = core.Reload(ctx, c, now); err != nil {
			err = core.Unstored(err)
			return
		}
		app, res, refused := accept(m)
		if err = refused; err != nil {
			return
		}
		out = apiv1.Plan{ApplyResult: res, Namespace: wire.NamespaceOf(app.Spec), Source: state.Tier}
		if old := m.Apps[app.Name]; old != nil {
			out.Services = plan.Services(old.Spec, app.Spec)
		} else {
			out.Services = plan.Services(nil, app.Spec)
		}
		r = &rehearsal.Plan{
			M: m.Clone(), App: app.Name, Now: now, Before: map[wire.InstanceID]*wire.Instance{},
			Whys:  map[wire.InstanceID]*place.Record{},
			Asked: map[string]string{}, Sites: map[string]*rehearsal.Site{},
		}
		for id, i := range m.Insts {
			if i.App == app.Name {
				merged := m.Merged(i)
				merged.State, merged.Draining = i.State, i.Draining
				r.Before[id] = &merged
			}
		}
		r.M.Apps[app.Name] = app
		if recovery.Holding(m, now) {
			r.Notes = append(r.Notes, "the root recovers from a backup, and decides nothing before its clusters have "+
				"been heard: verge recovery")
		}
	})
	return r, out, err
}

// AskPlans puts the questions, all at once.
func AskPlans(ctx context.Context, c *core.Core, questions map[string]rpc.PlanAsk) map[string]*rehearsal.Site {
	out := map[string]*rehearsal.Site{}
	var wg sync.WaitGroup
	for name, q := range questions {
		s := &rehearsal.Site{}
		out[name] = s
		hold := time.Duration(0)
		if slices.ContainsFunc(q.Shares, func(s wire.Share) bool {
			return s.Spec != nil &&
				len(s.Spec.Latency)+len(s.Spec.DataHosts()) > 0
		}) {
			hold = rehearsal.PlanMeasure
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, rehearsal.PlanTimeout+hold)
			defer cancel()
			if s.Err = core.Ask(ctx, c, name, rpc.Ask{What: rpc.AskPlan, Plan: &q, WaitMs: int(hold.Milliseconds())},
				&s.Plan); s.Err != nil {
				s.Err = rehearsal.NotAsked(s.Err)
			}
		})
	}
	wg.Wait()
	return out
}
