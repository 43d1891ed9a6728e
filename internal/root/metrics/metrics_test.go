package metrics_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/root/metrics"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// of are the series of one cluster, by name.
func of(list []obs.Sample, cluster string) map[string]float64 {
	out := map[string]float64{}
	for _, s := range list {
		if len(s.Labels) == 1 && s.Labels[0] == [2]string{"cluster", cluster} {
			out[s.Name] = s.Value
		}
	}
	return out
}

func TestSeriesGrowWithClustersAlone(t *testing.T) {
	b := roottest.NewBackend(t, bustest.NewMemStore())
	roottest.MustApply(t, b, roottest.App("default", "a0", 1, ""))
	roottest.Pass(t, b.Core)
	few := metrics.Samples(b.Core)
	for n := range 20 {
		roottest.MustApply(t, b, roottest.App("default", fmt.Sprint("a", n+1), 30, ""))
	}
	roottest.Pass(t, b.Core)
	many := metrics.Samples(b.Core)
	if len(many) != len(few) {
		t.Errorf("%d series of one application, %d of 21", len(few), len(many))
	}
	seen := map[string]float64{}
	for _, s := range many {
		seen[s.Name] += s.Value
	}
	if seen["verge_applications"] != 21 || seen["verge_root_instances"] != 601 || seen["verge_applications_holding"] != 0 {
		t.Errorf("%v", seen)
	}
	now := time.Now()
	for _, name := range []string{"edge", "fog"} {
		b.M.Clusters[name] = state.NewCluster(state.ClusterRecord{V: wire.Version, Name: name}, now)
	}
	more := metrics.Samples(b.Core)
	if n := len(of(more, "edge")); n == 0 || len(more) != len(many)+2*n {
		t.Errorf("%d series with two clusters, %d of each, %d without", len(more), n, len(many))
	}
}

func TestAClusterThatHasNotReported(t *testing.T) {
	c := roottest.NewRunningCore(t)
	good, bad := of(metrics.Samples(c), "good"), of(metrics.Samples(c), "bad")
	for _, name := range []string{"verge_cluster_report_age_seconds", "verge_cluster_workers", "verge_cluster_free_cpu_cores"} {
		if _, has := good[name]; !has {
			t.Errorf("the cluster that reported has no %s", name)
		}
		if v, has := bad[name]; has {
			t.Errorf("the cluster that did not report has %s %v", name, v)
		}
	}
	if good["verge_cluster_up"] != 1 || bad["verge_cluster_up"] != 0 {
		t.Errorf("up: %v and %v, want 1 and 0", good["verge_cluster_up"], bad["verge_cluster_up"])
	}
	if good["verge_cluster_free_cpu_cores"] != 0.1 || good["verge_cluster_workers"] != 1 {
		t.Errorf("%v", good)
	}
	c.M.Clusters["good"].Suspect = true
	if up := of(metrics.Samples(c), "good")["verge_cluster_up"]; up != 0 {
		t.Errorf("a silent cluster is up: %v", up)
	}
}
