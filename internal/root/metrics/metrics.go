package metrics

import (
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
)

// Samples are the root's figures at this moment. Their number grows with the
// clusters, not with what they run.
func Samples(c *core.Core) []obs.Sample {
	now := time.Now()
	return core.View(c, func(m *state.Model) []obs.Sample {
		states := map[string]int{}
		for _, i := range m.Insts {
			states[string(i.State)]++
		}
		holds := 0
		for _, a := range m.Apps {
			if status.Application(m, a).Holds {
				holds++
			}
		}
		out := []obs.Sample{
			{Name: "verge_applications", Help: "Applications.", Value: float64(len(m.Apps))},
			{Name: "verge_applications_holding", Help: "Applications that have all that their descriptor promises.",
				Value: float64(holds)},
			{Name: "verge_store_writable", Help: "1 where changes can be stored.",
				Value: obs.Bool(c.RecordStore.WriteError() == nil)},
		}
		for _, s := range records.SortedKeys(states) {
			out = append(out, obs.Sample{Name: "verge_root_instances",
				Help:   "Instances by their state at the root: those that it has delegated are ClusterScheduled.",
				Labels: [][2]string{{"state", s}}, Value: float64(states[s])})
		}
		for _, name := range records.SortedKeys(m.Clusters) {
			cl, of := m.Clusters[name], [][2]string{{"cluster", name}}
			out = append(out, obs.Sample{Name: "verge_cluster_up", Help: "1 while the cluster reports.", Labels: of,
				Value: obs.Bool(cl.EverHeard && !cl.Suspect)})
			if cl.EverHeard {
				out = append(out, obs.Sample{Name: "verge_cluster_report_age_seconds",
					Help: "Age of the cluster's last report.", Labels: of, Value: now.Sub(cl.Heard).Seconds()})
			}
			out = append(out, obs.Sample{Name: "verge_cluster_clock_skew_seconds",
				Help: "How far the cluster's clock is ahead of the root's, negative if behind; 0 up to 5 s.", Labels: of,
				Value: cl.Skew.Ahead().Seconds()})
			if a := cl.Aggregate; a != nil {
				out = append(out,
					obs.Sample{Name: "verge_cluster_workers", Help: "Ready workers, as the cluster reported last.",
						Labels: of, Value: float64(a.Workers)},
					obs.Sample{Name: "verge_cluster_instances", Help: "Instances, as the cluster reported last.",
						Labels: of, Value: float64(a.Instances)},
					obs.Sample{Name: "verge_cluster_free_cpu_cores", Help: "Cores that are not reserved.", Labels: of,
						Value: a.CPU.Sum / 1000},
					obs.Sample{Name: "verge_cluster_free_memory_bytes", Help: "Memory that is not reserved.", Labels: of,
						Value: a.Memory.Sum})
			}
		}
		return out
	})
}
