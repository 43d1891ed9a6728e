package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/atomicfile/powertest"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// TestPowerCutsOfAllTiers cuts the power of a root, a cluster and a worker at the same
// moment, while root and cluster are written to, on file systems that lose whatever was
// not synced, the names of new files included. After each cut all of them start again,
// have what they acknowledged, and run what was applied.
func TestPowerCutsOfAllTiers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel() // it waits much more than it computes
	w := emptyWorld(t, newDir(t))
	var disks []*powertest.Disk
	for _, name := range []string{"root", "edge", "edge-1"} {
		dir := w.dirOf(name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		disks = append(disks, powertest.New(t, dir))
		t.Cleanup(func() { killAll(t, w.dir) })
	}
	w.startRoot()
	edge := w.addCluster("edge")
	edge.answers()
	x := w.addWorker("edge", "edge-1")
	w.allReady()
	w.root.apply(plain("kept", "1", 1, 100))
	var namespaces []string // that the root has acknowledged
	cordoned := ""          // the reason that the cluster has acknowledged last
	for cut := range 5 {
		var writers sync.WaitGroup
		done, ready := make(chan struct{}), make(chan struct{}, 2)
		ctx, cancel := context.WithCancel(t.Context())
		root, cluster, tried := w.root.client(), edge.client(), ""
		writers.Go(func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("ns-%d-%d", cut, n)
				if _, err := root.Namespaces.Create(ctx, apiv1.NamespaceRequest{Name: name}); err != nil {
					return
				}
				if namespaces = append(namespaces, name); n == 3+4*cut {
					ready <- struct{}{}
				}
			}
		})
		writers.Go(func() {
			for n := 0; ; n++ {
				tried = fmt.Sprintf("for %d %d", cut, n)
				if _, err := cluster.Workers.Cordon(ctx, "edge", "edge-1", rpc.CordonRequest{Reason: tried}); err != nil {
					return
				}
				if cordoned = tried; n == 3+4*cut {
					ready <- struct{}{}
				}
			}
		})
		go func() { writers.Wait(); close(done) }()
		for range 2 {
			select {
			case <-ready:
			case <-done:
				t.Fatal("neither is written to any more")
			}
		}
		for _, d := range disks {
			d.Cut()
		}
		killAll(t, w.dir)
		cancel()
		writers.Wait()
		w.root.wait()
		edge.wait()
		x.wait()
		for _, d := range disks {
			d.Return(t)
		}
		w.root.start()
		edge.start()
		x.start()
		w.root.answers()
		edge.answers()
		w.allReady()
		have := map[string]bool{}
		for _, ns := range must[[]apiv1.NamespaceView](t)(w.root.client().Namespaces.List(t.Context())) {
			have[ns.Name] = true
		}
		for _, name := range namespaces {
			if !have[name] {
				t.Errorf("cut %d: the root has lost namespace %s", cut, name)
			}
		}
		for _, v := range must[[]rpc.WorkerView](t)(edge.client().Workers.List(t.Context())) {
			if v.Cordon == nil || v.Cordon.Why != cordoned && v.Cordon.Why != tried {
				t.Errorf("cut %d: the cluster has acknowledged %q, and the worker is cordoned %+v", cut, cordoned, v.Cordon)
			}
		}
		w.root.holds("kept", 40*time.Second)
		if t.Failed() {
			return
		}
	}
}
