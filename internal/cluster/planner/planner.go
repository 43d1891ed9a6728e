package planner

import (
	"context"
	"maps"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/check"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/survey"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// PlanShares answers the root: what would become of an application here, were these
// its shares.
// It measures for at most measure what must be near, beyond its own time.
func PlanShares(ctx context.Context, c *core.Core, q *rpc.PlanAsk, measure time.Duration, now time.Time) (rpc.SitePlan,
	error) {
	out := rpc.SitePlan{V: wire.Version}
	given := map[string]*wire.Share{}
	if q == nil || q.App == "" {
		return out, wire.Problemf(400, "invalid-request", "upgrade the root", "the question is not complete",
			"it names no application")
	}
	for n := range q.Shares {
		s := &q.Shares[n]
		if err := check.Share(s, q.App+"."+s.Service); err != nil {
			return out, wire.Problemf(400, "invalid-request", "upgrade the root", "the question is not valid",
				"share %s: %v", state.Cut(s.Service, check.MaxName), err)
		}
		given[q.App+"."+s.Service] = s
	}
	c.Planning.Lock()
	defer c.Planning.Unlock()
	var m *state.Model
	var by *rehearsal.Asker
	core.Do(c, func(now *state.Model) {
		if !now.Unasked(state.TheRoot) {
			m = now.Clone()
			by = consulting(c, m, measure)
		}
	})
	if m == nil {
		return out, wire.Problemf(409, "recovering", "wait until it has recovered: verge recovery, at the cluster",
			"the cluster was restored and does not plan yet", "cluster %s hears its workers first", c.ClusterName)
	}
	if c.Ports != nil {
		fleet.Memory(m).OtherPorts = c.Ports.Others(m.Name)
	}
	before := maps.Clone(m.Insts)
	keys := records.SortedKeys(given)
	for key, s := range m.FromRoot {
		if s.App == q.App && given[key] == nil {
			delete(m.FromRoot, key)
			keys = append(keys, key)
		}
	}
	maps.Copy(m.FromRoot, given)
	reconcile.Effect(m, keys...)
	conflicts := len(localedit.ConflictTable.Rows(m.DB))
	ctx, cancel := context.WithTimeout(ctx, rehearsal.RehearseFor+by.Meter.Span)
	defer cancel()
	whys, whole := rehearsal.Rehearse(ctx, m, by, now)
	out.Notes = by.Said()
	out.Instances = rehearsal.Becomes(m, q.App, before, whys, m.Details, now)
	if len(localedit.ConflictTable.Rows(m.DB)) > conflicts {
		out.Notes = append(out.Notes, "changes that were made at cluster "+c.ClusterName+" give way: verge local, there")
	}
	out.Notes = append(out.Notes, rehearsal.Notes(m, whole, now)...)
	if len(out.Instances) > rehearsal.MaxAnswer {
		return out, wire.Problemf(413, "too-large", "look at the cluster itself after the apply",
			"the plan is too large to be sent", "%d instances, at most %d", len(out.Instances), rehearsal.MaxAnswer)
	}
	decisions := 0
	for n := range out.Instances {
		if decisions += len(out.Instances[n].Decisions); decisions > rehearsal.MaxDecisions {
			out.Instances[n].Decisions = nil
		}
	}
	return out, nil
}

// PlanLocal plans a change of a descriptor that is made here.
func PlanLocal(ctx context.Context, c *core.Core, source []byte, now time.Time) (apiv1.Plan, error) {
	var out apiv1.Plan
	spec, res, err := localedit.Parse(source)
	if err != nil {
		return out, err
	}
	c.Planning.Lock()
	defer c.Planning.Unlock()
	r, err := core.View2(c, func(*state.Model) (rehearsed, error) { return rehearseApply(ctx, c, spec, &res, now) })
	if err != nil {
		return out, err
	}
	m, by := r.edit.M, r.by
	out = apiv1.Plan{ApplyResult: res, Namespace: r.edit.Ns, Source: m.Tier(),
		Services: plan.Services(r.was, rehearsal.Written(m, spec.Application))}
	ctx, cancel := context.WithTimeout(ctx, 5*rehearsal.RehearseFor+by.Meter.Span)
	defer cancel()
	whys, whole := rehearsal.Rehearse(ctx, m, by, now)
	out.Notes = append(by.Said(), rehearsal.Notes(m, whole, now)...)
	out.Instances = rehearsal.Becomes(m, spec.Application, r.before, whys, true, now)
	plan.Close(&out)
	return out, nil
}

// rehearsed is an edit of a copy of the model, and what there was before it.
type rehearsed struct {
	edit   *edits.Edit
	before map[wire.InstanceID]*wire.Instance
	was    *api.Application
	by     *rehearsal.Asker
}

// rehearseApply applies a descriptor to a copy of the model. The caller has the model.
func rehearseApply(ctx context.Context, c *core.Core, spec *api.Application, res *apiv1.ApplyResult,
	now time.Time) (r rehearsed, err error) {
	if r.edit, err = edits.RehearseEdit(ctx, c, spec.Application, now); err != nil {
		return r, err
	}
	r.before = maps.Clone(c.M.Insts)
	r.was = rehearsal.Written(r.edit.M, spec.Application)
	if err := r.edit.Apply(access.From(ctx), spec, res); err != nil {
		return r, err
	}
	t, err := r.edit.Tx()
	if err != nil {
		return r, err
	}
	t.Done()
	r.by = consulting(c, r.edit.M, rehearsal.PlanMeasureFor)
	return r, nil
}

// consulting is what a rehearsal of a copy of the model asks with, which may measure for so
// long. The caller has the model.
func consulting(c *core.Core, m *state.Model, measure time.Duration) *rehearsal.Asker {
	for id, x := range advisor.Memory(m).Inquiries {
		if x.Answer == nil { // its answer goes to the model, not to the copy
			delete(advisor.Memory(m).Inquiries, id)
		}
	}
	return &rehearsal.Asker{Plugins: maps.Clone(consult.Memory(c.M).Plugins),
		Question: func(asks []*advisor.Ask, joint bool, patience time.Duration) plugin.Question {
			return consult.Question(c, asks, joint, patience)
		}, Notes: map[string]string{}, Meter: measureFor(c, measure)}
}

// measureFor is how a rehearsal measures, for so long.
func measureFor(c *core.Core, patience time.Duration) *rehearsal.Meter {
	return &rehearsal.Meter{Cluster: c.ClusterName, Span: min(patience, rehearsal.PlanMeasureFor),
		One: func(ctx context.Context, q proximity.Question) (rpc.Measured, error) {
			return survey.Measured(ctx, c, q)
		}}
}
