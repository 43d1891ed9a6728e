package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestJob runs a job of which one index fails twice, while the agent, the engine and the
// orchestrators are started again.
func TestJob(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	out := sharedDir(t)
	// Each run notes its index; those of index 3 fail the first two times, and all wait
	// until the gate is open.
	w.root.apply(fmt.Sprintf(`application: batch
services:
  task:
    command: [sh, -c, 'umask 0; echo "index $VERGE_JOB_INDEX of $VERGE_JOB_COMPLETIONS"; echo $VERGE_JOB_RUN >> $OUT/began.$VERGE_JOB_INDEX; while [ ! -e $OUT/open ]; do sleep 0.05; done; if [ $VERGE_JOB_INDEX = 3 ] && [ $(wc -l < $OUT/began.3) -lt 3 ]; then exit 7; fi; echo $VERGE_JOB_RUN >> $OUT/done.$VERGE_JOB_INDEX']
    env: {OUT: %[1]s}
    volumes: [{path: out, host: %[1]s}]
    job: {completions: 5, parallelism: 2, retries: 3}
`, out))
	lines := func(what string, index int) int {
		b, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("%s.%d", what, index)))
		if err != nil {
			return 0
		}
		return strings.Count(string(b), "\n")
	}
	eventually(t, 10*time.Second, "two run", func() error {
		n := 0
		for k := range 5 {
			n += lines("began", k)
		}
		return differs("runs that have begun", n, 2)
	})
	if text := w.root.ok("get", "jobs"); !strings.Contains(text, "0/5") || !strings.Contains(text, "running") {
		t.Errorf("get jobs says\n%s", text)
	}
	// Nothing of this is seen by what runs, and nothing of it starts anything.
	for _, x := range w.worker {
		x.kill()
		x.start()
	}
	for _, x := range []*tier{w.cluster["edge"], w.root} {
		x.kill()
		x.start()
		x.answers()
	}
	w.allReady()
	if err := os.WriteFile(filepath.Join(out, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.root.ok("wait", "job/batch.task", "--for", "complete", "--timeout", "2m")
	for k := range 5 {
		began := 1
		if k == 3 {
			began = 3
		}
		wantEqual(t, fmt.Sprintf("runs of index %d", k), lines("began", k), began)
		wantEqual(t, fmt.Sprintf("completions of index %d", k), lines("done", k), 1)
	}
	if text := w.root.ok("describe", "job/batch.task"); !strings.Contains(text, "complete: 5 of 5 completed") {
		t.Errorf("describe says\n%s", text)
	}
	// What has ended has its logs, and is not run again by anybody who starts anew.
	if text := w.cluster["edge"].ok("logs", "batch.task.4"); !strings.Contains(text, "index 4 of 5") {
		t.Errorf("its log says %q", text)
	}
	for _, x := range []*tier{w.cluster["edge"], w.root} {
		x.kill()
		x.start()
		x.answers()
	}
	w.allReady()
	w.root.ok("wait", "job/batch.task", "--timeout", "30s")
	wantEqual(t, "runs of index 0", lines("began", 0), 1)
	// Another run is asked for.
	w.root.ok("restart", "batch.task", "--reason", "the data of today")
	eventually(t, 30*time.Second, "all have run once more", func() error {
		for k := range 5 {
			if n := lines("done", k); n != 2 {
				return fmt.Errorf("index %d has completed %d times", k, n)
			}
		}
		return nil
	})
	w.root.ok("wait", "job/batch.task", "--timeout", "30s")
}
