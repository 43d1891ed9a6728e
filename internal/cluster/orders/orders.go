package orders

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/wire"
)

// Give writes the order of an instance to its worker.
func Give(t *state.Tx, i *wire.Instance, s *wire.Share) {
	t.Order(i.Worker, i.ID, &wire.Order{
		V: wire.Version, ID: i.ID, App: i.App, Namespace: s.Namespace, Service: i.Service, Ordinal: i.Ordinal,
		Incarnation: i.Incarnation, Revision: i.Revision, Spec: s.Spec,
		AppNumber: netlease.In(t).OrderNumber(i, s), Job: jobs.OrderOf(t, i, s), Sleep: sleep(t, i, s),
		Devices: fleet.GiveDevices(t, i, s),
	})
}

// Start makes i the next incarnation of its instance, of the program that its
// share asks for, and orders it.
func Start(t *state.Tx, i wire.Instance, s *wire.Share) {
	state.Become(&i, state.NextIncarnation(&i))
	i.AllRestarts = i.Again()
	if i.Program != t.Program(s.Spec) {
		i.LastExit = nil // it says nothing about this one
	} else if s.Spec.Job == nil && state.Ended(&i) {
		i.AllRestarts++ // in another place
	}
	i.Revision, i.Restarted, i.Program = s.Revision, state.RestartOf(s, i.Ordinal).N, t.Program(s.Spec)
	i.Restarts, i.Asleep, i.ReadyAt = 0, false, time.Time{}
	state.Pin(&i, s)
	// Where it begins on another worker, what that one had is not to be taken up again if
	// it returns.
	if i.Former != "" && i.Former != i.Worker && s.Spec.Pins() {
		volumes.Leave(t, &i, s, i.Former, "its worker was removed from the cluster, and it began elsewhere", "")
	}
	i.Former = ""
	t.Put(i)
	Give(t, &i, s)
}

// sleep is when an instance of a share sleeps, nil where it always runs.
func sleep(t *state.Tx, i *wire.Instance, s *wire.Share) *wire.Sleep {
	key := i.App + "." + i.Service
	given := autoscale.Delegated(t.Model, key)
	if given == nil || given.Min > 0 || !s.Spec.Replicas.ToZero() {
		return nil
	}
	idle := api.DefaultIdle
	if s.Spec.Idle != nil {
		idle = *s.Spec.Idle
	}
	// It begins awake where the requests ask for it; once it is there, its worker
	// knows better.
	awake := given.Extra > 0 || state.StandIn(i) // else nobody would see what it does
	if sc := autoscale.Table.Rows(t.Model.DB)[key]; sc != nil {
		awake = awake || sc.Want > 0
	}
	if old := t.Ordered(i.Worker + "." + i.ID); old != nil && old.Incarnation == i.Incarnation && old.Sleep != nil {
		awake = old.Sleep.Awake
	}
	return &wire.Sleep{Idle: idle, Awake: awake}
}

// Move orders the incarnation that is to take over.
func Move(t *state.Tx, i *wire.Instance, s *wire.Share) {
	next := *i
	next.Worker, next.Incarnation, next.Revision = i.Moving.Worker, i.Moving.Incarnation, i.Moving.Revision
	Give(t, &next, s)
}
