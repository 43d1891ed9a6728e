package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// agesAreOfTheReports stops the cluster's process, and then an agent's, and reads
// ages again and again meanwhile: reading must not make them young.
func (w *world) agesAreOfTheReports(t *testing.T) {
	edge, worker := w.cluster["edge"], w.worker["edge-1"]
	ofCluster := func() (float64, error) {
		s, err := w.root.client().System.Status(context.Background())
		for _, c := range s.Clusters {
			if c.Name == edge.name {
				return c.AgeSeconds, err
			}
		}
		return 0, fmt.Errorf("no cluster %s (%w)", edge.name, err)
	}
	ofInstance := func() (float64, error) {
		v, err := w.root.client().Instances.Get(context.Background(), "good.main.0")
		return v.AgeSeconds, err
	}
	ofWorker := func() (float64, error) {
		list, err := edge.client().Workers.List(context.Background())
		for _, x := range list {
			if x.Name == worker.short {
				return x.AgeSeconds, err
			}
		}
		return 0, fmt.Errorf("no worker %s (%w)", worker.short, err)
	}
	grows(t, edge.daemon, 7*time.Second, map[string]func() (float64, error){"the cluster": ofCluster, "the instance": ofInstance})
	grows(t, worker.daemon, 4500*time.Millisecond, map[string]func() (float64, error){"the worker": ofWorker})
	w.root.holds("good", 10*time.Second)
}

// grows stops a process until nothing that comes from it can be younger than d.
func grows(t *testing.T, d *daemon, long time.Duration, ages map[string]func() (float64, error)) {
	t.Helper()
	d.signal(syscall.SIGSTOP)
	stopped := time.Now()
	defer d.signal(syscall.SIGCONT)
	// What was on its way may still arrive.
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	last := map[string]float64{}
	for time.Since(stopped) < long {
		for what, age := range ages {
			began := time.Since(stopped)
			now := must[float64](t)(age())
			if before, ok := last[what]; ok && now < before {
				t.Fatalf("the age of %s fell from %.2f s to %.2f s while nothing could come from it", what, before, now)
			}
			if began > time.Second {
				last[what] = now
			}
			if least := began.Seconds() - 0.5; now < least {
				t.Fatalf("%s is said to be %.2f s old, nothing can have come for %.2f s", what, now, least)
			}
		}
		<-ticker.C
	}
	d.signal(syscall.SIGCONT)
	for what, age := range ages {
		eventually(t, 10*time.Second, what+" is young again", func() error {
			now, err := age()
			if err == nil && now > long.Seconds()/2 {
				err = fmt.Errorf("%.2f s", now)
			}
			return err
		})
	}
}
