package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/revisions"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/undo"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var _ rest.Rollouts = Backend{}

// Rollout implements rest.Backend.
func (b Backend) Rollout(_ context.Context, name string) (apiv1.RolloutView, error) {
	return core.View2(b.Core, func(m *state.Model) (apiv1.RolloutView, error) {
		app := m.Apps[name]
		if app == nil {
			return apiv1.RolloutView{}, edits.NoApp(name)
		}
		return rollouts.View(m, app), nil
	})
}

// Pause implements rest.Backend.
func (b Backend) Pause(ctx context.Context, name string, q apiv1.RolloutRequest) (apiv1.RolloutView, error) {
	return b.setHold(ctx, name, q, true)
}

// Resume implements rest.Backend.
func (b Backend) Resume(ctx context.Context, name string, q apiv1.RolloutRequest) (apiv1.RolloutView, error) {
	return b.setHold(ctx, name, q, false)
}

func (b Backend) setHold(ctx context.Context, name string, q apiv1.RolloutRequest, paused bool) (v apiv1.RolloutView,
	err error) {
	err = edits.ChangeApp(ctx, b.Core, name, func(t *state.Tx, old *record.Application) (*record.Application, error) {
		if q.Service != "" && old.Spec.Services[q.Service] == nil {
			return nil, edits.NoService(name, q.Service)
		}
		next := *old
		if next.Holds = maps.Clone(old.Holds); next.Holds == nil {
			next.Holds = map[string]wire.Hold{}
		}
		for svc := range next.Holds {
			if old.Spec.Services[svc] == nil {
				delete(next.Holds, svc)
			}
		}
		for _, svc := range old.Spec.ServiceNames() {
			if q.Service != "" && svc != q.Service {
				continue
			}
			h := next.Holds[svc]
			if paused && h.Paused {
				continue // since then, and by whoever did it
			}
			h.Paused, h.By, h.At, h.Why = paused, rest.Caller(ctx), t.Now.Round(0), q.Reason
			if !paused {
				h.Resumed++
			}
			next.Holds[svc] = h
		}
		kind, what := event.RolloutResumed, "rollout resumed"
		if paused {
			kind, what = event.RolloutPaused, "rollout paused"
		}
		if q.Service != "" {
			what += " (" + q.Service + ")"
		}
		what += edits.ByWhom(rest.Caller(ctx))
		if q.Reason != "" {
			what += ": " + q.Reason
		}
		t.Event(kind, name, "%s", what)
		v = rollouts.View(t.Model, &next)
		return &next, nil
	})
	return v, err
}

// standsIn says why there is an instance beyond those that were promised: the root has
// ordered the rollout, and its cluster decides what stands in for whom.
func (b Backend) standsIn(v apiv1.InstanceView) rpc.Explained {
	return core.View(b.Core, func(m *state.Model) rpc.Explained {
		d := place.Decision{V: wire.Version, Kind: "clusters", Chosen: v.Cluster, Candidates: 1}
		d.Reason = fmt.Sprintf("it stands in while cluster %s updates %s.%s (rollout.max_surge), and ends with that",
			v.Cluster, v.App, v.Service)
		out := rpc.Explained{Tier: state.Tier}
		if len(v.History) > 0 {
			out.At = v.History[0].At
		}
		if c := m.Clusters[v.Cluster]; c != nil && c.Rollouts[v.App+"."+v.Service] != nil {
			r := c.Rollouts[v.App+"."+v.Service]
			out.At = r.Began
			d.Reason = fmt.Sprintf("it stands in while cluster %s brings %s.%s to revision %d (rollout.max_surge), "+
				"and ends with that", v.Cluster, v.App, v.Service, r.Revision)
		}
		out.Decision = d
		return out
	})
}

// Revisions implements rest.Backend: from the newest on.
func (b Backend) Revisions(_ context.Context, name string) ([]apiv1.AppRevision, error) {
	return core.View2(b.Core, func(m *state.Model) ([]apiv1.AppRevision, error) {
		app := m.Apps[name]
		if app == nil {
			return nil, edits.NoApp(name)
		}
		cur := revisions.Current(m, app, time.Now())
		cur.Current = true
		out := []apiv1.AppRevision{cur}
		for _, r := range slices.Backward(revisions.Memory(m).History[name]) {
			out = append(out, r)
		}
		return out, nil
	})
}

// Revision implements rest.Backend.
func (b Backend) Revision(ctx context.Context, name string, n uint64) (apiv1.AppRevision, error) {
	return core.View2(b.Core, func(*state.Model) (apiv1.AppRevision, error) {
		return undo.ReadRevision(ctx, b.Core, name, n)
	})
}

// Undo implements rest.Backend.
func (b Backend) Undo(ctx context.Context, name string, q apiv1.RolloutRequest) (apiv1.ApplyResult, error) {
	warnings, err := b.gate(ctx, wire.GateUndo, name,
		strings.TrimSpace("an earlier revision is to be brought back "+q.Service))
	if err != nil {
		return apiv1.ApplyResult{}, err
	}
	var res apiv1.ApplyResult
	err = edits.ChangeApp(ctx, b.Core, name, func(t *state.Tx, old *record.Application) (app *record.Application,
		err error) {
		if q.Service != "" && old.Spec.Services[q.Service] == nil {
			return nil, edits.NoService(name, q.Service)
		}
		to := q.To
		if to == 0 {
			if to, err = undo.LastHeld(ctx, b.Core, old, q.Service); err != nil {
				return nil, err
			}
		}
		app, res, err = undo.To(ctx, b.Core, t, access.From(ctx), old, q.Service, to, rest.Caller(ctx), q.Reason,
			t.Now)
		res.Warnings, res.Undo = append(warnings, res.Warnings...), to
		return app, err
	})
	return res, err
}
