package agent

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// link is how the exchange with the cluster goes.
type link struct {
	up       bool
	at       time.Time // when the cluster answered last
	ack      wire.Rev  // what it has of ours
	failures uint64
}

// answered notes the outcome of an exchange with the cluster.
func (a *Agent) answered(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link.up = err == nil; err == nil {
		a.link.at = time.Now()
	} else {
		a.link.failures++
	}
}

// acked notes what the cluster has of what was reported.
func (a *Agent) acked(to wire.Rev) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link.ack = to
}

// metrics measures the worker: this process, and its engine.
func (a *Agent) metrics(ctx context.Context) (rpc.MetricsPage, error) {
	out := rpc.MetricsPage{V: wire.Version}
	engine, err := a.client.Metrics(ctx)
	if err != nil && ctx.Err() != nil {
		return out, err
	}
	own, perr := obs.Page("agent", a.samples(err == nil))
	if perr != nil {
		return out, perr
	}
	text, err := obs.Text(own, engine)
	if err == nil {
		out.Text, err = obs.Pack(text)
	}
	return out, err
}

// samples are the agent's own figures; engine says whether that answered.
func (a *Agent) samples(engine bool) []obs.Sample {
	a.mu.Lock()
	link, impaired := a.link, a.impaired
	a.mu.Unlock()
	out := []obs.Sample{
		{Name: "verge_engine_up", Help: "1 where the engine answers.", Value: obs.Bool(engine && impaired == "")},
		{Name: "verge_link_up", Help: "1 where the last report was answered.", Value: obs.Bool(link.up)},
		{Name: "verge_link_failures_total", Help: "Reports that were not answered since the agent started.", Counter: true,
			Value: float64(link.failures)},
		{Name: "verge_link_unacknowledged_changes",
			Help: "Instances of which the cluster does not know the latest state yet.", Value: float64(a.source.After(link.ack))},
		{Name: "verge_worker_settings_outdated", Help: "1 if the engine still has former settings.",
			Value: obs.Bool(a.outdated != "")},
	}
	if !link.at.IsZero() {
		out = append(out,
			obs.Sample{Name: "verge_link_answer_age_seconds", Help: "Time since the cluster answered last.",
				Value: time.Since(link.at).Seconds()})
	}
	if a.id != nil {
		out = append(out, obs.Expires("worker", a.id.Leaf().NotAfter))
	}
	return out
}
