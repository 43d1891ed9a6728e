package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Ours says that a cluster is not this one.
func Ours(c *core.Core, cluster string) error {
	if cluster != c.ClusterName {
		return rest.ElsewhereAt("operating a worker", cluster)
	}
	return nil
}

// Cordon takes a worker out of use or back, as the caller of ctx asks for.
func Cordon(ctx context.Context, c *core.Core, q rpc.Ask) (wire.Cordon, error) {
	now := time.Now()
	var cordon wire.Cordon
	err := setCordon(ctx, c, q.Worker, now, func(old *wire.Cordon) *wire.Cordon {
		if q.What == rpc.AskUncordon {
			return nil
		}
		next := rest.NextCordon(old, q.Cordon.CordonRequest, rest.Caller(ctx), now)
		cordon = *next
		return next
	})
	return cordon, err
}

// setCordon stores what change makes of a worker's cordon, where that is new.
func setCordon(ctx context.Context, c *core.Core, name string, now time.Time,
	change func(*wire.Cordon) *wire.Cordon) error {
	return core.Update(ctx, c, now, func(t *state.Tx) error {
		w := t.Model.Workers[name]
		if w == nil {
			return NoWorker(c.ClusterName, name)
		}
		next := w.WorkerRecord
		if next.Cordon = change(w.Cordon); rest.SameCordon(w.Cordon, next.Cordon) {
			return nil
		}
		state.WorkerTable.Put(t.Rows, name, &next)
		what := rest.CordonWords(next.Cordon, rest.Caller(ctx))
		t.Event(event.WorkerCordon, event.WorkerName(c.ClusterName, name), "%s", what)
		loop.Poke(c.UpChanged) // the root counts only what takes something new
		return nil
	})
}

// WorkerDrain is how far the drain of a worker is.
func WorkerDrain(ctx context.Context, c *core.Core, name string, now time.Time) (rpc.DrainView, error) {
	return core.View2(c, func(m *state.Model) (rpc.DrainView, error) {
		if err := core.Reload(ctx, c, now); err != nil {
			return rpc.DrainView{}, core.Unstored(err)
		}
		if m.Workers[name] == nil {
			return rpc.DrainView{}, NoWorker(c.ClusterName, name)
		}
		return DrainView(m, name, now), nil
	})
}

// DrainView says what is still on a worker. It asks the same pass that decides.
func DrainView(m *state.Model, name string, now time.Time) rpc.DrainView {
	w := m.Workers[name]
	v := rpc.DrainView{Left: []rpc.DrainItem{}, Source: m.Tier(), AgeSeconds: -1}
	if w.EverHeard {
		v.AgeSeconds = now.Sub(w.Heard).Seconds()
	}
	if w.Draining() {
		v.Cordon = w.Cordon
	}
	t := reconcile.Step(m, now)
	for _, i := range t.Instances() {
		item := rpc.DrainItem{Instance: i.ID}
		switch {
		case i.Leaving != nil && i.Leaving.Worker == name:
			item.State, item.To, item.Why = "ending", i.Worker, "its connections end, and it stops"
		case i.Worker != name || i.State != wire.Running && i.State != wire.WorkerScheduled:
			continue
		case i.Draining:
			item.State, item.Why = "ending", "it is no longer wanted"
		case state.UnderWay(i):
			item.State, item.To, item.Why = "moving", i.Moving.Worker, moveWaits(m, i)
		case state.JobOf(m, i) != nil:
			item.State, item.Why = "waiting",
				"it belongs to a job, of which no index runs twice: it goes on until it has ended"
		case fleet.Pass(t).Stays[i.ID] != "":
			item.State, item.Why = "stays", fleet.Pass(t).Stays[i.ID]
		default:
			item.State, item.Why = "waiting", goesFirst(t, i)
		}
		v.Left = append(v.Left, item)
	}
	return v
}

// moveWaits says what the move of an instance waits for.
func moveWaits(m *state.Model, i *wire.Instance) string {
	w := m.Workers[i.Moving.Worker]
	if w == nil {
		return "not ready there yet"
	}
	st, known := w.Status[i.ID]
	if !known || st.Incarnation != i.Moving.Incarnation {
		return "ordered, and the worker has not begun with it yet"
	}
	why := "not ready there yet"
	switch {
	case st.Why != "":
		why += ": " + st.Why
	case st.Phase == wire.PhasePending:
		why += ": it has not started"
	case st.Phase == wire.PhaseRunning && !st.Ready:
		why += ": it runs, and its readiness check has not passed"
	}
	if st.Restarts > 0 {
		why += fmt.Sprintf(" (started again %d times)", st.Restarts)
	}
	return why
}

// goesFirst says which instance of the same service moves before i.
func goesFirst(t *state.Tx, i *wire.Instance) string {
	if t.Model.Alone {
		return "nobody is heard, so nothing is moved"
	}
	for _, o := range t.Instances() {
		if o.App == i.App && o.Service == i.Service && o.ID != i.ID && (state.UnderWay(o) || o.Leaving != nil) {
			return o.ID + " moves first"
		}
	}
	return "another of its service moves first"
}
