package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCron has one job with a schedule run when somebody asks for it, with its cluster killed
// in the middle, and another one by the clock while the root is away.
func TestCron(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	out := sharedDir(t)
	w.root.apply(fmt.Sprintf(`application: batch
services:
  nightly:
    command: [sh, -c, 'umask 0; echo "run $VERGE_JOB_RUN"; echo $VERGE_JOB_RUN >> $OUT/began; while [ ! -e $OUT/open ]; do sleep 0.05; done; echo $VERGE_JOB_RUN >> $OUT/done']
    env: {OUT: %[1]s}
    volumes: [{path: out, host: %[1]s}]
    cron: {schedule: "30 2 29 2 *", zone: Europe/Berlin}
  tick:
    command: [sh, -c, 'umask 0; echo $VERGE_JOB_TIME >> $OUT/ticks']
    env: {OUT: %[1]s}
    volumes: [{path: out, host: %[1]s}]
    cron: {schedule: "* * * * *", missed: skip}
`, out))
	lines := func(what string) []string {
		b, err := os.ReadFile(filepath.Join(out, what))
		if err != nil {
			return nil
		}
		return strings.Fields(string(b))
	}
	// It has run for nobody yet.
	if text := w.root.ok("get", "jobs"); !strings.Contains(text, "scheduled") {
		t.Errorf("get jobs says\n%s", text)
	}
	wantEqual(t, "runs of what is due on the 29th of February", len(lines("began")), 0)
	w.root.ok("job", "run", "batch/nightly", "--no-wait", "--reason", "a test")
	eventually(t, 20*time.Second, "it runs", func() error { return differs("runs", len(lines("began")), 1) })
	w.cluster["edge"].kill()
	w.cluster["edge"].start()
	w.cluster["edge"].answers()
	if err := os.WriteFile(filepath.Join(out, "open"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.root.ok("wait", "job/batch.nightly", "--timeout", "60s")
	wantEqual(t, "runs that began", len(lines("began")), 1)
	wantEqual(t, "runs that have completed", len(lines("done")), 1)
	if text := w.root.ok("job", "run", "batch/nightly", "--timeout", "60s"); !strings.Contains(text, "1 of 1 completed") {
		t.Errorf("job run says\n%s", text)
	}
	text := w.root.ok("describe", "job/batch.nightly")
	for _, want := range []string{"30 2 29 2 * Europe/Berlin", "Next run", "a test", "complete"} {
		if !strings.Contains(text, want) {
			t.Errorf("describe does not say %q:\n%s", want, text)
		}
	}
	if text := w.cluster["edge"].ok("logs", "batch.nightly.0"); !strings.Contains(text, "run 2") {
		t.Errorf("its log says %q", text)
	}
	// A run that is ended by somebody has not failed.
	if err := os.Remove(filepath.Join(out, "open")); err != nil {
		t.Fatal(err)
	}
	w.root.ok("job", "run", "batch/nightly", "--no-wait")
	eventually(t, 20*time.Second, "it runs", func() error { return differs("runs", len(lines("began")), 3) })
	w.root.ok("job", "stop", "batch/nightly")
	eventually(t, 20*time.Second, "it is stopped", func() error {
		if text := w.root.ok("describe", "job/batch.nightly"); !strings.Contains(text, "stopped") {
			return fmt.Errorf("describe says\n%s", text)
		}
		return nil
	})
	// The clock counts while the root is away.
	w.root.kill()
	before := len(lines("ticks"))
	eventually(t, 90*time.Second, "it has run while the root was away", func() error {
		if n := len(lines("ticks")); n <= before {
			return fmt.Errorf("%d runs, as before", n)
		}
		return nil
	})
	w.root.start()
	w.root.answers()
	w.allReady()
	seen := map[string]bool{}
	for _, at := range lines("ticks") {
		if seen[at] {
			t.Errorf("there were two runs for %s: %v", at, lines("ticks"))
		}
		seen[at] = true
	}
	w.root.ok("job", "suspend", "batch/tick")
	eventually(t, 20*time.Second, "it is suspended", func() error {
		if text := w.root.ok("get", "jobs", "batch.tick"); !strings.Contains(text, "suspended") {
			return fmt.Errorf("get jobs says\n%s", text)
		}
		return nil
	})
}
