package metrics_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/metrics"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// value is that of the series with this name and these label values; the test fails without it.
func value(t *testing.T, list []obs.Sample, name string, labels ...string) float64 {
	t.Helper()
	for _, s := range list {
		var got []string
		for _, l := range s.Labels {
			got = append(got, l[1])
		}
		if s.Name == name && strings.Join(got, " ") == strings.Join(labels, " ") {
			return s.Value
		}
	}
	t.Fatalf("no series %s %q", name, labels)
	return 0
}

func TestSeriesDoNotGrowWithTheCluster(t *testing.T) {
	few := metrics.Samples(clustertest.ManyWorkers(t, 2, time.Now()))
	many := metrics.Samples(clustertest.ManyWorkers(t, 300, time.Now()))
	if len(few) != len(many) {
		t.Errorf("%d series of 2 workers, %d of 300", len(few), len(many))
	}
	if n := value(t, many, "verge_instances", string(wire.Running)); n != 300 {
		t.Errorf("%v instances run, want 300", n)
	}
	if n := value(t, many, "verge_workers", "ready"); n != 300 {
		t.Errorf("%v workers are ready, want 300", n)
	}
}

func TestCapacityIsThatOfReadyWorkers(t *testing.T) {
	c := clustertest.ManyWorkers(t, 3, time.Now())
	for _, w := range c.M.Workers {
		w.Info.Capacity = api.Resources{CPU: 2000, Memory: 1 << 30, Disk: 1 << 31}
	}
	c.M.Workers["w00001"].Suspect = true
	c.M.Workers["w00002"].EverHeard = false
	got := metrics.Samples(c)
	for name, want := range map[string]float64{"cpu_cores": 2, "memory_bytes": 1 << 30, "disk_bytes": 1 << 31} {
		if v := value(t, got, "verge_capacity_"+name); v != want {
			t.Errorf("capacity of %s: %v, want %v", name, v, want)
		}
	}
	for _, status := range []string{"ready", "suspect", "never-seen"} {
		if v := value(t, got, "verge_workers", status); v != 1 {
			t.Errorf("%v workers are %s, want 1", v, status)
		}
	}
}

func TestScalingServicesAreBounded(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	const services, most = 250, 100
	wants := map[string]*autoscale.Want{}
	for n := range services {
		wants[fmt.Sprintf("app.s%03d", n)] = &autoscale.Want{Decision: rpc.ScaleDecision{Rate: float64(n), Want: n}}
	}
	autoscale.Memory(c.M).Wants = wants
	seen := map[string]bool{}
	for _, s := range metrics.Samples(c) {
		if strings.HasPrefix(s.Name, "verge_scale_") {
			seen[s.Labels[1][1]] = true
		}
	}
	if len(seen) != most {
		t.Fatalf("%d services have series, want %d", len(seen), most)
	}
	for n := services - most; n < services; n++ {
		if !seen[fmt.Sprintf("s%03d", n)] {
			t.Errorf("s%03d, with %d requests per second, has none", n, n)
		}
	}
}

// Each page is a question to the worker: what it said before is not repeated.
func TestWorkerPageIsOfThisMoment(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	clustertest.AddWorkers(t, c, "w1")
	asked := 0
	exchangetest.OnAsk(t, c.Local, exchange.WorkerSubjects("w1"), func(q rpc.Ask, sent string) (any, *wire.Problem) {
		if q.What != rpc.AskMetrics || q.Worker != "w1" {
			t.Errorf("the worker was asked %s", sent)
		}
		asked++
		return rpc.MetricsPage{V: wire.Version, Text: fmt.Append(nil, "answer ", asked)}, nil
	})
	for n := 1; n <= 2; n++ {
		page, err := metrics.WorkerPage(t.Context(), c, "w1")
		if want := fmt.Sprint("answer ", n); err != nil || string(page.Text) != want {
			t.Errorf("page %q, %v, want %q", page.Text, err, want)
		}
	}
	_, err := metrics.WorkerPage(t.Context(), c, "w9")
	clustertest.WantCode(t, "of nobody", err, "no-such-worker")
}
