package root

import (
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
)

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
