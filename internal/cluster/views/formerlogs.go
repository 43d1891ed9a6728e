package views

import (
	"context"
	"errors"
	"slices"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// FormerPlaces are where an instance was before, latest first: before it left and came
// back, too.
func FormerPlaces(c *core.Core, id wire.InstanceID) []wire.Placement {
	return core.View(c, func(m *state.Model) []wire.Placement {
		var places []wire.Placement
		if i := m.Insts[id]; i != nil {
			places = i.Places
		}
		for _, p := range core.Memory(m).Departed.Places[id] {
			if !slices.Contains(places, p) {
				places = append(slices.Clip(places), p)
			}
		}
		return places
	})
}

// formerLog passes a question for a former log on to the worker that keeps it.
func formerLog(ctx context.Context, c *core.Core, q rpc.Ask) (rpc.LogChunk, error) {
	var chunk rpc.LogChunk
	places := FormerPlaces(c, q.Instance)
	if q.Former > len(places) {
		return chunk, wire.Problemf(404, "no-former-log", "verge logs "+q.Instance, "there is no such former log",
			"cluster %s knows of %d former places of %s", c.ClusterName, len(places), q.Instance)
	}
	at := places[q.Former-1]
	q.Incarnation = at.Incarnation
	err := core.AskWorker(ctx, c, at.Worker, q, "the former log cannot be read now", &chunk)
	var p *wire.Problem
	if errors.As(err, &p) && p.Code == "no-instance" {
		err = wire.Problemf(410, "log-expired", "verge logs "+q.Instance, "the former log is not kept any more",
			"worker %s keeps the logs of instances that have left for a day, and of many not all", at.Worker)
	}
	chunk.Former, chunk.Worker = q.Former, c.ClusterName+"/"+at.Worker
	return chunk, err
}
