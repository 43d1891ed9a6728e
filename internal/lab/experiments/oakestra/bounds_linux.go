package oakestra

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// Where bounds come from. Those of docs/footprint.md are of one process of each tier alone on
// a machine.
const (
	fromFootprint = "docs/footprint.md"
	fromStress    = "twice what docs/experiments.md has"
	fromProtocol  = "twice what one change needs on a link"
)

// Tiers of a site.
const (
	tierRoot    = "root"
	tierCluster = "cluster"
	tierWorker  = "worker"
	tierAll     = "all"
)

// use is what a process of a tier takes in a time in which nothing is asked of it.
type use struct {
	cpu    float64 // ms of processor time in a minute
	memory float64 // MB (PSS)
}

// idleMost is the most that an idle process of a tier may take. To a cluster each worker
// reports six times a minute; a report and its answer may take a millisecond.
func idleMost(tier string, workers int) (most use, from string) {
	switch tier {
	case tierWorker:
		return use{40, 38}, fromFootprint
	case tierCluster:
		return use{60 + 6*float64(workers), 45}, fromFootprint + ", and 1 ms for each report"
	}
	return use{60, 45}, fromFootprint
}

// stressMost is the same with a hundred instances on each worker.
func stressMost(tier string, _ int) (most use, from string) {
	switch tier {
	case tierWorker:
		return use{110, 42}, fromStress
	case tierCluster:
		return use{140, 80}, fromStress
	}
	return use{60, 45}, fromFootprint // far above twice what it was
}

// deployMost is how much processor time all of Verge may take to deploy one of many
// instances, in ms.
const deployMost = 10

// useRows adds the rows of a tier, with what is required of them.
func useRows(e *experiment.Env, params map[string]any, got, most use, from string) {
	e.AtMost(e.Row(experiment.Row{Params: params, Metric: "cpu", Unit: "ms/min", Measured: got.cpu}), most.cpu, from)
	e.AtMost(e.Row(experiment.Row{Params: params, Metric: "memory", Unit: "MB PSS", Measured: got.memory}), most.memory, from)
}

// deployCPURows adds what each tier took to deploy an instance, in ms, and all together.
func deployCPURows(e *experiment.Env, params map[string]any, took map[string]float64) {
	row := func(tier string, ms float64) *experiment.Row {
		p := experiment.With(params, "tier", tier)
		return e.Row(experiment.Row{Params: p, Metric: "deploy_cpu", Unit: "ms for each instance", Measured: ms})
	}
	all := 0.0
	for _, tier := range []string{tierRoot, tierCluster, tierWorker} {
		all += took[tier]
		row(tier, took[tier])
	}
	e.AtMost(row(tierAll, all), deployMost, fromFootprint)
}

// What a worker's link may carry: in a minute at rest, and for one instance.
const (
	idlePackets = 26
	idleBytes   = 4096
	// deployMessages: an order on its way down a link (internal/bus/exchange) is a nudge; a
	// report with the older revision and its reply; the fetch of what changed and its answer;
	// the report of the new revision and its reply; and a report that the instance runs, and
	// its reply. The checks of an instance, and reports that are due anyway, come on top.
	deployMessages = 2 * 9
)

// traffic is what links carried between two looks at them.
type traffic struct{ before, after emul.Count }

// controlRows adds what the links between a cluster and so many workers carried: idle for
// some time, and then while an instance was deployed on each.
func controlRows(e *experiment.Env, workers int, idle time.Duration, quiet, busy traffic) {
	for _, x := range []struct {
		phase, unit              string
		of                       traffic
		per                      float64
		messages, packets, bytes float64 // at most; 0: nothing is required
		from                     string
	}{
		{"idle", "1/min", quiet, float64(workers) * idle.Minutes(), 0, idlePackets, idleBytes, fromFootprint},
		{"deploying", "1/instance", busy, float64(workers), deployMessages, 0, 0, fromProtocol},
	} {
		p := map[string]any{"phase": x.phase, "workers": workers}
		for _, m := range []struct {
			metric        string
			before, after uint64
			most          float64
		}{
			{"messages", x.of.before.Data, x.of.after.Data, x.messages},
			{"packets", x.of.before.Sent, x.of.after.Sent, x.packets},
			{"bytes", x.of.before.Bytes, x.of.after.Bytes, x.bytes},
		} {
			r := e.Row(experiment.Row{Params: p, Metric: m.metric, Unit: x.unit, Measured: float64(m.after-m.before) / x.per})
			if m.most > 0 {
				e.AtMost(r, m.most, x.from)
			}
		}
	}
}

// How deploying may grow: with the round trip between cluster and workers, of which it needs
// some, and with the workers, to each of which goes one instance.
const (
	leastRoundTrips = 1 // the order, and that it runs
	mostRoundTrips  = 5
)

// mostDelay is the longest that is added to a round trip.
const mostDelay = 250 * time.Millisecond

type deployCase struct {
	workers int
	delay   time.Duration // added to the round trip, as by netem at the worker
	loss    float64       // each way
}

// deployed is the shortest time of deployments under the same conditions.
type deployed struct {
	deployCase
	took time.Duration
}

// deployRatios adds how many round trips deployments took that had one to wait for, and how
// many times as long the largest site took as the smallest.
func deployRatios(e *experiment.Env, all []deployed) {
	still := map[int]deployed{} // without delay and loss, by workers
	least, most := deployed{}, deployed{}
	for _, d := range all {
		if d.delay > 0 || d.loss > 0 {
			continue
		}
		still[d.workers] = d
		if least.workers == 0 || d.workers < least.workers {
			least = d
		}
		if d.workers > most.workers {
			most = d
		}
	}
	for _, d := range all {
		base, ok := still[d.workers]
		if !ok || d.delay == 0 || d.loss > 0 {
			continue
		}
		p := map[string]any{"workers": d.workers, "delay_ms": float64(d.delay.Milliseconds())}
		trips := float64(d.took-base.took) / float64(d.delay)
		r := e.Row(experiment.Row{Params: p, Metric: "round_trips", Unit: "1", Measured: experiment.Rounded(trips)})
		// Below 250 ms what else the machine does is more than a round trip.
		if d.delay >= mostDelay {
			e.AtLeast(r, leastRoundTrips, "an order and its answer")
			e.AtMost(r, mostRoundTrips, "a nudge, two questions with their answers, a report; and one more of each to spare")
		}
	}
	if least.workers < most.workers {
		p := map[string]any{"workers": most.workers, "over": least.workers}
		over := float64(most.took) / float64(least.took)
		r := e.Row(experiment.Row{Params: p, Metric: "deploy_time_over", Unit: "1", Measured: experiment.Rounded(over)})
		// On two processors all start in turns: a root or cluster that looked at all workers
		// for each instance would be beyond it.
		times := float64(most.workers) / float64(least.workers)
		e.AtMost(r, 2*times, fmt.Sprintf("twice %.3g times the instances", times))
	}
}
