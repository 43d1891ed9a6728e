package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// hollow starts a process that is so many workers which run nothing, each with a room
// of its own. Those of the world that run something are counted apart.
func (w *world) hollow(cluster, name string, workers int) *daemon {
	w.t.Helper()
	in := w.at(name)
	x := &daemon{w: w, name: name, path: programs.verge, log: filepath.Join(w.dir, name+".log"), in: in}
	x.args = []string{
		"worker", "--hollow", fmt.Sprint(workers), "--name", name, "--data-dir", filepath.Join(w.dir, name+".d"),
		"--cpus", "1", "--memory", "1Gi", "--disk", "10Gi",
		"--token-file", w.token(w.cluster[cluster], apiv1.TokenRequest{Kind: "worker", Uses: workers}),
	}
	x.start()
	return x
}

// holds waits until exactly the instances 0 to n-1 of a service run, each once, and
// none of them where there is no worker: by what the cluster says, which knows more.
func (w *world) holds(cluster, app string, n int, timeout time.Duration) {
	w.t.Helper()
	eventually(w.t, timeout, fmt.Sprintf("%d instances of %s run", n, app), func() error {
		list, err := w.cluster[cluster].client().Instances.List(w.t.Context(), app, "")
		if err != nil {
			return err
		}
		seen, running := map[string]bool{}, 0
		for _, i := range list {
			if seen[i.ID] {
				return fmt.Errorf("%s is there twice", i.ID)
			}
			seen[i.ID] = true
			if i.State == wire.Running && i.Worker != "" {
				running++
			}
		}
		if running != n || len(list) != n {
			return fmt.Errorf("%d of %d run", running, len(list))
		}
		return nil
	})
}

func hollowApp(name string, replicas int) string {
	return fmt.Sprintf("application: %s\nservices:\n  idle:\n    command: [idle]\n    replicas: %d\n    replace_after: 1s\n    resources: {cpu: 100m, memory: 32Mi, disk: 1Mi}\n", name, replicas)
}

// TestHollowWorkers: a hundred workers in one process, for which nothing really runs,
// take what is placed on them as any other, and lose it with their process.
func TestHollowWorkers(t *testing.T) {
	t.Parallel()
	w := newRoot(t)
	w.addCluster("edge")
	w.cluster["edge"].answers()
	x := w.hollow("edge", "h", 100)
	c := w.root.client()
	eventually(t, time.Minute, "100 workers are ready", func() error {
		list, err := c.Workers.List(t.Context())
		if err != nil {
			return err
		}
		ready := 0
		for _, v := range list {
			if v.Status == "ready" {
				ready++
			}
		}
		return differs("ready workers", ready, 100)
	})
	w.root.apply(hollowApp("many", 200))
	w.holds("edge", "many", 200, time.Minute)
	w.root.apply(hollowApp("many", 50))
	w.holds("edge", "many", 50, time.Minute)
	if r := verge(t, w.root.contextFile(), "logs", "instance/many.idle.0"); r.code == 0 || !strings.Contains(r.err, "nothing really runs there") {
		t.Errorf("logs of what does not run: exit code %d\n%s%s", r.code, r.out, r.err)
	}

	t.Log("its process is killed, and comes back without what it ran")
	x.kill()
	x.start()
	w.holds("edge", "many", 50, time.Minute)
}

// TestChurnOfWorkers: while applications come, grow and shrink, groups of workers are
// killed and come back empty. In the end every instance runs, once, on a worker that is
// there and was told so: nothing is lost, nothing is there twice.
func TestChurnOfWorkers(t *testing.T) {
	t.Parallel()
	const groups, each = 6, 10
	w := newRoot(t)
	w.addCluster("edge")
	w.cluster["edge"].answers()
	hollow := make([]*daemon, groups)
	for g := range hollow {
		hollow[g] = w.hollow("edge", fmt.Sprintf("g%d", g), each)
	}
	want := map[string]int{}
	for round := range 8 {
		app := fmt.Sprintf("app-%d", round%4)
		want[app] = 10 + 7*round
		w.root.ok("apply", "--no-wait", w.file("app-", hollowApp(app, want[app])))
		x := hollow[round%groups]
		x.kill()
		x.start()
	}
	for app, n := range want {
		w.holds("edge", app, n, 2*time.Minute)
	}
	eventually(t, time.Minute, "all workers are back, and have what runs and no more", func() error {
		list, err := w.cluster["edge"].client().Workers.List(t.Context())
		if err != nil {
			return err
		}
		ready, n := 0, 0
		for _, v := range list {
			if v.Status == "ready" {
				ready++
			}
			n += v.Instances
		}
		total := 0
		for _, n := range want {
			total += n
		}
		if err := differs("ready workers", ready, groups*each); err != nil {
			return err
		}
		return differs("instances on workers", n, total)
	})
}
