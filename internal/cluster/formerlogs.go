package cluster

import (
	"context"
	"errors"
	"slices"

	"github.com/verge-edge/verge/internal/wire"
)

const (

	// maxDeparted are the instances of which places are remembered after they have left.
	maxDeparted = 4096
)

// departed remembers where the logs of instances are that have left the cluster: the root
// has given them to another, or they are no more. It is a help for people and not stored.
type departed struct {
	places map[wire.InstanceID][]wire.Placement
	order  []wire.InstanceID // oldest first
}

func (d *departed) add(id wire.InstanceID, places []wire.Placement) {
	if len(places) == 0 {
		return
	}
	if d.places == nil {
		d.places = map[wire.InstanceID][]wire.Placement{}
	}
	if _, again := d.places[id]; again {
		d.order = slices.DeleteFunc(d.order, func(other wire.InstanceID) bool { return other == id })
	} else if len(d.order) == maxDeparted {
		delete(d.places, d.order[0])
		d.order = d.order[1:]
	}
	d.places[id], d.order = places, append(d.order, id)
}

// formerPlaces are where an instance was before, latest first: before it left and came
// back, too.
func (c *core) formerPlaces(id wire.InstanceID) []wire.Placement {
	c.mu.Lock()
	defer c.mu.Unlock()
	var places []wire.Placement
	if i := c.m.Insts[id]; i != nil {
		places = i.Places
	}
	for _, p := range c.departed.places[id] {
		if !slices.Contains(places, p) {
			places = append(slices.Clip(places), p)
		}
	}
	return places
}

// formerLog passes a question for a former log on to the worker that keeps it.
func (c *core) formerLog(ctx context.Context, q wire.Ask) (wire.LogChunk, error) {
	var chunk wire.LogChunk
	places := c.formerPlaces(q.Instance)
	if q.Former > len(places) {
		return chunk, wire.Problemf(404, "no-former-log", "verge logs "+q.Instance, "there is no such former log", "cluster %s knows of %d former places of %s", c.name, len(places), q.Instance)
	}
	at := places[q.Former-1]
	q.Incarnation = at.Incarnation
	err := c.askWorker(ctx, at.Worker, q, "the former log cannot be read now", &chunk)
	var p *wire.Problem
	if errors.As(err, &p) && p.Code == "no-instance" {
		err = wire.Problemf(410, "log-expired", "verge logs "+q.Instance, "the former log is not kept any more", "worker %s keeps the logs of instances that have left for a day, and of many not all", at.Worker)
	}
	chunk.Former, chunk.Worker = q.Former, c.name+"/"+at.Worker
	return chunk, err
}
