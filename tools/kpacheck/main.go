// Command kpacheck plays traces of requests to Knative's own autoscaler and to the rules of it
// that package kpa has, through the same pods and queues in virtual time, and compares
// the pods of each second. More than a bound of difference is an error.
//
//	kpacheck
//
// What is Knative's: its collector with its windows, and its decision
// (knative.dev/serving/pkg/autoscaler). It is a module of its own, so that Verge does
// not depend on Knative.
package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale/kpa"
	"github.com/verge-edge/verge/internal/sim/autoscale"
	"github.com/verge-edge/verge/internal/sim/trace"
)

// The bounds. Both sides do the same additions in another order, so that a mean may be
// off by its last digit; nothing else may be.
const (
	leastEqual = 0.9999
	mostPods   = 1
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kpacheck:", err)
		os.Exit(1)
	}
}

// played is one trace by one metric.
type played struct {
	seconds, equal, most int
	ours, theirs         float64 // mean pods
	within               int     // requests in time by ours, less theirs
}

func run() error {
	traces, err := trace.Azure()
	if err != nil {
		return fmt.Errorf("read the traces: %w", err)
	}
	var failed []error
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "SETTING\tMETRIC\tTRACES\tSECONDS\tEQUAL\tMOST APART\tPODS HERE\tPODS OF KNATIVE\tIN TIME, APART")
	for _, s := range settings() {
		for _, how := range []autoscale.Algorithm{autoscale.RPS, autoscale.Concurrency} {
			var sum played
			for i, v := range traces {
				p, err := play(s.set, how, trace.Scaled(v, s.mean))
				if err != nil {
					return fmt.Errorf("%s, %s, trace %d: %w", s.name, how, i, err)
				}
				sum.seconds, sum.equal, sum.most = sum.seconds+p.seconds, sum.equal+p.equal, max(sum.most, p.most)
				sum.ours, sum.theirs, sum.within = sum.ours+p.ours/float64(len(traces)),
					sum.theirs+p.theirs/float64(len(traces)), sum.within+p.within
			}
			share := float64(sum.equal) / float64(sum.seconds)
			fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%.4f %%\t%d\t%.4f\t%.4f\t%d\n", s.name, how, len(traces), sum.seconds,
				100*share, sum.most, sum.ours, sum.theirs, sum.within)
			if share < leastEqual || sum.most > mostPods {
				failed = append(failed, fmt.Errorf("%s, %s: %.4f %% of the seconds are equal and the most is %d pods "+
					"apart; at least %.2f %% and at most %d are allowed",
					s.name, how, 100*share, sum.most, 100*leastEqual, mostPods))
			}
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return errors.Join(failed...)
}

type setting struct {
	name string
	mean float64 // requests a second
	set  autoscale.Setting
}

// settings: that of the experiment mu-autoscaler; one in which services sleep most of
// the time; and slow requests whose pods start slowly.
func settings() []setting {
	return []setting{
		{"busy", 339, autoscale.Setting{Places: 10, QueueMax: 100, Exec: 100 * time.Millisecond, SLO: time.Second,
			Start: 2 * time.Second, Seed: 1}},
		{"sleepy", 0.05, autoscale.Setting{Places: 1, QueueMax: 100, Exec: 500 * time.Millisecond, SLO: 5 * time.Second,
			Start: 2 * time.Second, Seed: 2}},
		{"slow", 40, autoscale.Setting{Places: 4, QueueMax: 100, Exec: 2 * time.Second, SLO: 10 * time.Second,
			Start: 12 * time.Second, Seed: 3}},
	}
}

func play(set autoscale.Setting, how autoscale.Algorithm, rates []float64) (played, error) {
	ours := autoscale.Run(set, how, rates)[0]
	var theirs *knative
	var failed error
	set.Knative = func(how autoscale.Algorithm, target float64) autoscale.Knative {
		if theirs, failed = newKnative(how, target/kpa.Utilisation); failed != nil {
			return kpa.NewScaler(target) // of no use: the error is what is returned
		}
		return theirs
	}
	other := autoscale.Run(set, how, rates)[0]
	if failed != nil {
		return played{}, failed
	}
	theirs.close()
	p := played{seconds: len(ours.Each), ours: ours.Pods, theirs: other.Pods, within: ours.Within - other.Within}
	for i, n := range ours.Each {
		d := n - other.Each[i]
		if d == 0 {
			p.equal++
		}
		p.most = max(p.most, d, -d)
	}
	return p, nil
}
