package root

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// allSamples are samples, and those of what the process itself is known by.
func (r *Root) allSamples() []obs.Sample {
	return append(append(append(r.samples(), r.shelf.Samples()...), r.hooks.Samples()...), obs.Expires("root", r.id.Leaf().NotAfter), obs.Expires("authority", r.ca.Certs()[0].NotAfter))
}

// samples are the root's figures at this moment. Their number grows with the
// clusters, not with what they run.
func (c *core) samples() []obs.Sample {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	states := map[string]int{}
	for _, i := range c.m.insts {
		states[string(i.State)]++
	}
	holds := 0
	for _, a := range c.m.apps {
		if c.m.appView(a).Holds {
			holds++
		}
	}
	out := []obs.Sample{
		{Name: "verge_applications", Help: "Applications.", Value: float64(len(c.m.apps))},
		{Name: "verge_applications_holding", Help: "Applications that have all that their descriptor promises.", Value: float64(holds)},
		{Name: "verge_store_writable", Help: "1 where changes can be stored.", Value: obs.Bool(c.store.WriteError() == nil)},
	}
	for _, s := range records.SortedKeys(states) {
		out = append(out, obs.Sample{Name: "verge_root_instances", Help: "Instances by their state at the root: those that it has delegated are ClusterScheduled.", Labels: [][2]string{{"state", s}}, Value: float64(states[s])})
	}
	for _, name := range records.SortedKeys(c.m.clusters) {
		cl, of := c.m.clusters[name], [][2]string{{"cluster", name}}
		out = append(out, obs.Sample{Name: "verge_cluster_up", Help: "1 where the cluster is heard of.", Labels: of, Value: obs.Bool(cl.everHeard && !cl.suspect)})
		if cl.everHeard {
			out = append(out, obs.Sample{Name: "verge_cluster_report_age_seconds", Help: "Age of the cluster's last report.", Labels: of, Value: now.Sub(cl.heard).Seconds()})
		}
		out = append(out, obs.Sample{Name: "verge_cluster_clock_skew_seconds", Help: "How far the cluster's clock is ahead of the root's, negative if behind; 0 up to 5 s.", Labels: of, Value: cl.skew.Ahead().Seconds()})
		if a := cl.agg; a != nil {
			out = append(out,
				obs.Sample{Name: "verge_cluster_workers", Help: "Ready workers, as the cluster reported last.", Labels: of, Value: float64(a.Workers)},
				obs.Sample{Name: "verge_cluster_instances", Help: "Instances, as the cluster reported last.", Labels: of, Value: float64(a.Instances)},
				obs.Sample{Name: "verge_cluster_free_cpu_cores", Help: "Cores that are not reserved.", Labels: of, Value: a.CPU.Sum / 1000},
				obs.Sample{Name: "verge_cluster_free_memory_bytes", Help: "Memory that is not reserved.", Labels: of, Value: a.Memory.Sum})
		}
	}
	return out
}

// WorkerMetrics implements rest.Backend: the worker's cluster asks it.
func (b backend) WorkerMetrics(ctx context.Context, cluster, worker string) ([]byte, error) {
	const title = "the worker cannot be measured now"
	if err := b.details(cluster, title); err != nil {
		return nil, err
	}
	var page wire.MetricsPage
	if err := b.ask(ctx, cluster, wire.Ask{What: wire.AskMetrics, Worker: worker}, &page); err != nil {
		return nil, unanswered(err, cluster, "worker-unavailable", title)
	}
	if err := wire.CheckVersion("the figures of worker "+cluster+"/"+worker, page.V); err != nil {
		return nil, err
	}
	text, err := obs.Unpack(page.Text)
	if err != nil {
		return nil, fmt.Errorf("the answer of worker %s/%s: %w", cluster, worker, err)
	}
	return text, nil
}
