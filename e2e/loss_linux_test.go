package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// lossFor is how long packets are lost at most. With half of them lost each way TCP
// waits longer after each attempt, up to minutes, and nobody can promise anything
// but that nothing is lost for good.
const lossFor = 25 * time.Second

// TestLossyLinks deploys while packets between a cluster and both its root and its
// workers are lost, each way, and says how long that takes: with one in five lost it
// must come to an end, with half of them when the links are well again at the
// latest.
func TestLossyLinks(t *testing.T) {
	needMachines(t)
	t.Parallel() // it waits much more than it computes
	w := onMachines(t)
	w.startRoot()
	w.addCluster("edge").answers()
	w.addWorker("edge", "edge-1")
	w.addWorker("edge", "edge-2")
	w.allReady()
	for _, percent := range []int{0, 20, 50} {
		t.Run(fmt.Sprintf("%d%%", percent), func(t *testing.T) {
			m, well := w.machine("edge"), func() {}
			if percent > 0 {
				m.fail(t, "loss", lose(percent), outside)
				well = sync.OnceFunc(func() { m.repair(t, "loss") })
				defer well()
			}
			client := w.root.client()
			begin := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), 4*requestTimeout)
			defer cancel()
			if _, err := client.Applications.Apply(ctx, []byte(plain("lossy", fmt.Sprint(percent), 2, 100)), false); err != nil {
				t.Fatal(err)
			}
			holds := func() error {
				v, err := client.Applications.Get(context.Background(), "lossy")
				if err == nil && !v.Holds {
					err = errors.New(v.Message)
				}
				return err
			}
			if percent >= 50 && await(lossFor, holds) != nil {
				well()
				eventually(t, time.Minute, "it holds when the links are well", holds)
				t.Logf("with %d %% of the packets lost each way it was not done after %s, and is %s later", percent, lossFor, (time.Since(begin) - lossFor).Round(time.Millisecond))
				return
			}
			eventually(t, 2*time.Minute, "it holds", holds)
			t.Logf("with %d %% of the packets lost each way, two instances were deployed or updated after %s", percent, time.Since(begin).Round(time.Millisecond))
		})
	}
	// What is deleted while its worker is away, is ended when that is back.
	w.allReady()
	w.root.holds("lossy", time.Minute)
	w.root.ok("delete", "application/lossy", "--timeout", "2m")
	eventually(t, time.Minute, "nothing of it runs", func() error {
		if left := instancesIn(w.dir); len(left) > 0 {
			return errors.New(describe(left))
		}
		return nil
	})
	w.endInOrder(t)
}
