package metrics

import (
	"context"
	"math"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Samples are the cluster's figures at this moment. Their number does not grow
// with its workers or instances: those of a worker are asked for one by one. Of
// services that scale there is a bounded number.
func Samples(c *core.Core) []obs.Sample {
	return core.View(c, func(m *state.Model) []obs.Sample { return samples(c, m) })
}

// samples are Samples with the model.
func samples(c *core.Core, m *state.Model) []obs.Sample {
	workers := map[string]int{"ready": 0, "suspect": 0, "never-seen": 0}
	var capacity, used [3]float64
	use := fleet.Reserved(m.Read())
	skew := 0.0
	for name, w := range m.Workers {
		skew = max(skew, math.Abs(w.Skew.Ahead().Seconds()))
		status := views.Status(m, w)
		workers[status]++
		if status != "ready" {
			continue
		}
		of := w.Info.Capacity
		capacity[0] += float64(of.CPU) / 1000
		capacity[1] += float64(of.Memory)
		capacity[2] += float64(of.Disk)
		if u := use[name]; u != nil {
			used[0] += float64(u.Used.CPU) / 1000
			used[1] += float64(u.Used.Memory)
			used[2] += float64(u.Used.Disk)
		}
	}
	states, ready, restarts := map[string]int{}, 0, 0
	for _, i := range m.Insts {
		states[string(i.State)]++
		if i.Ready {
			ready++
		}
		restarts += i.Again()
	}
	out := []obs.Sample{
		{Name: "verge_root_up", Help: "1 where the root answers.", Value: obs.Bool(uplink.RootAway(c) == nil)},
		{Name: "verge_store_writable", Help: "1 where changes can be stored.",
			Value: obs.Bool(c.RecordStore.WriteError() == nil)},
		{Name: "verge_workers_clock_skew_seconds",
			Help:  "How far the clock of a worker is from the cluster's, the most of all workers; 0 up to 5 s.",
			Value: skew},
		{Name: "verge_instances_ready", Help: "Instances that may receive requests.", Value: float64(ready)},
		{Name: "verge_instance_restarts", Help: "Restarts of the instances that are there now, over moves.",
			Value: float64(restarts)},
	}
	if !uplink.Memory(m).UpAt.IsZero() {
		out = append(out, obs.Sample{Name: "verge_root_answer_age_seconds",
			Help: "Time since the root answered last.", Value: time.Since(uplink.Memory(m).UpAt).Seconds()})
	}
	for _, s := range records.SortedKeys(workers) {
		out = append(out, obs.Sample{Name: "verge_workers", Help: "Workers by status.",
			Labels: [][2]string{{"status", s}}, Value: float64(workers[s])})
	}
	for _, s := range records.SortedKeys(states) {
		out = append(out, obs.Sample{Name: "verge_instances", Help: "Instances by state.",
			Labels: [][2]string{{"state", s}}, Value: float64(states[s])})
	}
	for n, r := range [...]string{"cpu_cores", "memory_bytes", "disk_bytes"} {
		out = append(out,
			obs.Sample{Name: "verge_capacity_" + r, Help: "What instances may reserve on ready workers.",
				Value: capacity[n]},
			obs.Sample{Name: "verge_reserved_" + r, Help: "What instances have reserved on ready workers.",
				Value: used[n]})
	}
	out = append(append(out, jobSamples(c)...), proximity.NearSamples(m)...)
	return append(append(out, ScaleSamples(c)...), consult.PluginSamples(c)...)
}

// jobSamples are the runs of jobs, of all that were ever counted here.
func jobSamples(c *core.Core) []obs.Sample {
	var sum wire.Counters
	for _, n := range c.M.Counters {
		sum = sum.Plus(*n)
	}
	goOn := 0
	for _, r := range jobs.Table.Rows(c.M.DB) {
		if jobs.GoesOn(&r.Run) {
			goOn++
		}
	}
	const runs = "Runs of jobs that have ended by themselves, by how."
	return []obs.Sample{
		{Name: "verge_jobs_running", Help: "Jobs of which a run goes on.", Value: float64(goOn)},
		{Name: "verge_job_runs_total", Help: runs, Counter: true, Labels: [][2]string{{"outcome", wire.JobComplete}},
			Value: float64(sum.Completed)},
		{Name: "verge_job_runs_total", Help: runs, Counter: true, Labels: [][2]string{{"outcome", wire.JobFailed}},
			Value: float64(sum.Failed)},
		{Name: "verge_job_runs_missed_total", Help: "Times of schedules that passed while nobody could begin a run.",
			Counter: true, Value: float64(sum.Missed)},
	}
}

// WorkerPage asks a worker for its figures. Nothing is kept: they are those of the
// moment, or there are none.
func WorkerPage(ctx context.Context, c *core.Core, worker string) (page rpc.MetricsPage, err error) {
	if !workers.HasWorker(c, worker) {
		return page, workers.NoWorker(c.ClusterName, worker)
	}
	err = core.AskWorker(ctx, c, worker, rpc.Ask{What: rpc.AskMetrics, Worker: worker},
		"the worker cannot be measured now", &page)
	if err == nil {
		err = wire.CheckVersion("the figures of worker "+worker, page.V)
	}
	return page, err
}
