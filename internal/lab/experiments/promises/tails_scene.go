package promises

import (
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/sim"
)

// The scene of route-tails that the lab has, too.
const (
	tailsName    = "1 % × 100, no concurrency"
	tailsWorkers = 4
	// tailsPods share tailsProcessors each, and one of these needs tailsService for a request of mean
	// work: a long one takes 4 s. That is a hundred and forty requests a second for each policy, which two
	// real processors hand over without being busy.
	tailsPods, tailsProcessors = 8, 2
	tailsService               = 80 * time.Millisecond
	tailsLoad                  = 0.7
)

// tailsScene is the scene with requests at each worker.
func tailsScene(workers []string, quick bool, seed uint64) bed.Scene {
	s := bed.Scene{
		Hosts: workers, Rtt: func(string, string) time.Duration { return time.Millisecond },
		Processors: tailsProcessors, Law: sim.Bimodal(0.01, 100), Seed: seed,
		// Long requests are there from the beginning of what counts.
		Warm: experiment.Quickly(quick, 500*time.Millisecond, 10*time.Second),
		Span: experiment.Quickly(quick, 4*time.Second, 160*time.Second),
	}
	for i := range tailsPods {
		s.Pods = append(s.Pods, bed.ScenePod{Host: workers[i%len(workers)], Service: tailsService})
	}
	for _, w := range workers {
		full := tailsPods * tailsProcessors / tailsService.Seconds()
		s.Loads = append(s.Loads, bed.SceneLoad{Host: w, Rps: tailsLoad * full / float64(len(workers))})
	}
	return s
}

// What fastest may come to next to least-connections, to which the same requests come at the same time.
// Over 60 seeds of virtual time chance makes its growth 1.009 times the other's, with a standard deviation
// of 2.8 %: the bound is three of them. (That of least-connections alone is 17 %: one long request more or
// less in a quarter.) Its mean is 0.926 of the other's, with 1.3 %. What a busy machine adds to all requests
// leads to 1, and three deviations more are the bound.
const mostGrowth, mostOver = 1.10, 1.05
