package cluster

import (
	"math"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// allSamples are samples, and those of what the process itself is known by.
func (c *Cluster) allSamples() []obs.Sample {
	return append(append(append(c.samples(), c.shelf.Samples()...), c.hooks.Samples()...), obs.Expires("cluster", c.id.Leaf().NotAfter), obs.Expires("authority", c.ca.Cert().NotAfter))
}

// samples are the cluster's figures at this moment. Their number does not grow
// with its workers or instances: those of a worker are asked for one by one. Of
// services that scale there is a bounded number.
func (c *core) samples() []obs.Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	workers := map[string]int{"ready": 0, "suspect": 0, "never-seen": 0}
	var capacity, used [3]float64
	use := c.m.reads().usage()
	skew := 0.0
	for name, w := range c.m.Workers {
		skew = max(skew, math.Abs(w.Skew.Ahead().Seconds()))
		status := c.m.status(w)
		workers[status]++
		if status != "ready" {
			continue
		}
		of := w.Info.Capacity
		capacity[0] += float64(of.CPU) / 1000
		capacity[1] += float64(of.Memory)
		capacity[2] += float64(of.Disk)
		if u := use[name]; u != nil {
			used[0] += float64(u.used.CPU) / 1000
			used[1] += float64(u.used.Memory)
			used[2] += float64(u.used.Disk)
		}
	}
	states, ready, restarts := map[string]int{}, 0, 0
	for _, i := range c.m.Insts {
		states[string(i.State)]++
		if i.Ready {
			ready++
		}
		restarts += i.Again()
	}
	out := []obs.Sample{
		{Name: "verge_root_up", Help: "1 where the root answers.", Value: obs.Bool(c.rootAway() == nil)},
		{Name: "verge_store_writable", Help: "1 where changes can be stored.", Value: obs.Bool(c.store.WriteError() == nil)},
		{Name: "verge_workers_clock_skew_seconds", Help: "How far the clock of a worker is from the cluster's, the most of all workers; 0 up to 5 s.", Value: skew},
		{Name: "verge_instances_ready", Help: "Instances that may receive requests.", Value: float64(ready)},
		{Name: "verge_instance_restarts", Help: "Restarts of the instances that are there now, over moves.", Value: float64(restarts)},
	}
	if !c.upAt.IsZero() {
		out = append(out, obs.Sample{Name: "verge_root_answer_age_seconds", Help: "Time since the root answered last.", Value: time.Since(c.upAt).Seconds()})
	}
	for _, s := range records.SortedKeys(workers) {
		out = append(out, obs.Sample{Name: "verge_workers", Help: "Workers by status.", Labels: [][2]string{{"status", s}}, Value: float64(workers[s])})
	}
	for _, s := range records.SortedKeys(states) {
		out = append(out, obs.Sample{Name: "verge_instances", Help: "Instances by state.", Labels: [][2]string{{"state", s}}, Value: float64(states[s])})
	}
	for n, r := range [...]string{"cpu_cores", "memory_bytes", "disk_bytes"} {
		out = append(out,
			obs.Sample{Name: "verge_capacity_" + r, Help: "What instances may reserve on ready workers.", Value: capacity[n]},
			obs.Sample{Name: "verge_reserved_" + r, Help: "What instances have reserved on ready workers.", Value: used[n]})
	}
	out = append(append(out, c.jobSamples()...), c.m.nearSamples()...)
	return append(append(out, c.scaleSamples()...), c.pluginSamples()...)
}

// jobSamples are the runs of jobs, of all that were ever counted here.
func (c *core) jobSamples() []obs.Sample {
	var sum wire.Tally
	for _, n := range c.m.Tallies {
		sum = sum.Plus(*n)
	}
	goOn := 0
	for _, r := range c.m.jobs {
		if goesOn(&r.Run) {
			goOn++
		}
	}
	const runs = "Runs of jobs that have ended by themselves, by how."
	return []obs.Sample{
		{Name: "verge_jobs_running", Help: "Jobs of which a run goes on.", Value: float64(goOn)},
		{Name: "verge_job_runs_total", Help: runs, Counter: true, Labels: [][2]string{{"outcome", wire.JobComplete}}, Value: float64(sum.Completed)},
		{Name: "verge_job_runs_total", Help: runs, Counter: true, Labels: [][2]string{{"outcome", wire.JobFailed}}, Value: float64(sum.Failed)},
		{Name: "verge_job_runs_missed_total", Help: "Times of schedules that passed while nobody could begin a run.", Counter: true, Value: float64(sum.Missed)},
	}
}
