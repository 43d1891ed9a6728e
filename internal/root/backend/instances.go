package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var _ rest.Instances = Backend{}

// Instances implements rest.Backend.
func (b Backend) Instances(_ context.Context, app, service string) ([]apiv1.InstanceView, error) {
	return core.View2(b.Core, func(m *state.Model) ([]apiv1.InstanceView, error) {
		now := time.Now()
		out := []apiv1.InstanceView{}
		for _, i := range m.Read().Instances(app) {
			if (service == "" || i.Service == service) && !m.Hidden(i) {
				out = append(out, status.Instance(m, i, now))
			}
		}
		return append(out, rollouts.Extras(m, app, service, now)...), nil
	})
}

// Instance implements rest.Backend.
func (b Backend) Instance(_ context.Context, id wire.InstanceID) (apiv1.InstanceView, error) {
	return views.Find(b.Core, id)
}

// Explain implements rest.Backend.
func (b Backend) Explain(ctx context.Context, id wire.InstanceID) (apiv1.Explanation, error) {
	out := apiv1.Explanation{Instance: id}
	v, err := views.Find(b.Core, id)
	if err != nil {
		return out, err
	}
	e, err := b.RecordStore.Get(ctx, state.KeyWhy+id)
	// The root's decision compares all clusters: it is not for who may see one.
	whole := access.May(access.From(ctx), access.See,
		access.Object{Kind: access.Instance, Name: id, Namespace: v.Namespace}) == nil
	switch {
	case !whole:
		out.Notes = append(out.Notes, "the root's decision, which compares clusters, is shown to those who have "+
			"a role in namespace "+v.Namespace)
	case errors.Is(err, bus.ErrNotFound) && v.Ordinal >= wire.SurgeOrdinals:
		out.Decisions = append(out.Decisions, b.standsIn(v))
	case errors.Is(err, bus.ErrNotFound):
		out.Notes = append(out.Notes, "the root has not decided about it yet")
	case err != nil:
		return out, fmt.Errorf("reading the root's decision: %w", err)
	default:
		var rec place.Record
		if err := json.Unmarshal(e.Value, &rec); err != nil {
			return out, fmt.Errorf("stored decision about %s: %w", id, err)
		}
		out.Decisions = append(out.Decisions, rpc.Explained{Tier: state.Tier, At: rec.At, Decision: rec.Decision})
	}
	if v.Cluster == "" {
		return out, nil
	}
	var p *wire.Problem
	switch err := clusters.Details(b.Core, v.Cluster, "its decision is not known now"); {
	case errors.As(err, &p) && p.Code != "kept-private":
		out.Notes = append(out.Notes, fmt.Sprintf("cluster %s could not be asked for its decision: %s", v.Cluster,
			p.Detail))
	case err != nil:
		out.Notes = append(out.Notes, fmt.Sprintf("cluster %s keeps its own decision to itself: ask it directly "+
			"(verge --context FILE explain instance/%s)", v.Cluster, id))
	default:
		var part apiv1.Explanation
		if err := core.Ask(ctx, b.Core, v.Cluster, rpc.Ask{What: rpc.AskExplain, Instance: id}, &part); err != nil {
			out.Notes = append(out.Notes,
				fmt.Sprintf("cluster %s could not be asked for its decision: %v", v.Cluster, err))
		}
		out.Decisions = append(out.Decisions, part.Decisions...)
		out.Notes = append(out.Notes, part.Notes...)
	}
	return out, nil
}

// Logs implements rest.Backend.
func (b Backend) Logs(ctx context.Context, id wire.InstanceID, q rpc.LogAsk) (rpc.LogChunk, error) {
	var chunk rpc.LogChunk
	v, err := views.Find(b.Core, id)
	if err != nil {
		return chunk, err
	}
	if q.Former > 0 {
		return b.formerLog(ctx, v, q)
	}
	if v.Cluster == "" {
		return chunk, wire.Problemf(409, "not-placed", "verge describe instance/"+id, "there is no log yet",
			"%s is %s: %s", id, v.State, v.Reason)
	}
	if err := clusters.Details(b.Core, v.Cluster, "the log cannot be read here"); err != nil {
		return chunk, err
	}
	err = core.Ask(ctx, b.Core, v.Cluster, q.Logs(id), &chunk)
	return chunk, views.Unanswered(err, v.Cluster, "log-unavailable", "the log cannot be read now")
}

// formerLog finds a log on a worker where an instance was: in its cluster first, then in the
// others, which may have had it before. The q.Former-th of all is meant.
func (b Backend) formerLog(ctx context.Context, v apiv1.InstanceView, q rpc.LogAsk) (rpc.LogChunk, error) {
	left := q.Former
	read := func(name string) (rpc.LogChunk, bool, error) {
		ask := q
		ask.Former = left
		var chunk rpc.LogChunk
		err := core.Ask(ctx, b.Core, name, ask.Logs(v.ID), &chunk)
		knows := !edits.UnknownPlace(chunk, left, err)
		chunk.Former = q.Former
		return chunk, knows, views.Unanswered(err, name, "log-unavailable", "the former log cannot be read now")
	}
	if v.Cluster != "" && clusters.Details(b.Core, v.Cluster, "") == nil {
		if chunk, knows, err := read(v.Cluster); knows {
			return chunk, err
		}
		left -= b.formerPlaces(ctx, v.Cluster, v.ID, left-1)
	}
	var names []string
	for _, cl := range views.Clusters(b.Core) {
		if cl.Connected && cl.Name != v.Cluster && clusters.Details(b.Core, cl.Name, "") == nil {
			names = append(names, cl.Name)
		}
	}
	known := make([]int, len(names))
	var wg sync.WaitGroup
	for n, name := range names {
		wg.Go(func() { known[n] = b.formerPlaces(ctx, name, v.ID, left) })
	}
	wg.Wait()
	for n, name := range names {
		if left <= known[n] {
			chunk, _, err := read(name)
			return chunk, err
		}
		left -= known[n]
	}
	return rpc.LogChunk{}, wire.Problemf(404, "no-former-log", "verge logs "+v.ID, "there is no such former log",
		"no cluster that shares its details knows of so many former places of %s", v.ID)
}

// formerPlaces is how many places a cluster knows where an instance was, at most that many. A
// place of which the log cannot be read is one.
func (b Backend) formerPlaces(ctx context.Context, cluster string, id wire.InstanceID, most int) (n int) {
	for n < most {
		var chunk rpc.LogChunk
		err := core.Ask(ctx, b.Core, cluster, rpc.LogAsk{Former: n + 1, Max: 1}.Logs(id), &chunk)
		if edits.UnknownPlace(chunk, n+1, err) {
			return n
		}
		n++
		if err != nil && !errors.As(err, new(*wire.Problem)) {
			return n // whoever asks for it is told that
		}
	}
	return n
}
