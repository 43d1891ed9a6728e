package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What a crash loop has written can be read when its instance has been moved, and while it
// is on no worker.
func TestTheLogOfACrashLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	w := newRoot(t)
	w.addCluster("edge")
	w.cluster["edge"].answers()
	w.addWorker("edge", "edge-1")
	w.addWorker("edge", "edge-2")
	w.allReady()
	// To wait would be in vain: apply says that it has failed.
	w.root.ok("apply", "--no-wait", w.file("app-", `application: crash
services:
  loop:
    command: [sh, -c, "echo 'fatal: cannot open config' >&2; exit 3"]
    restart: {max_restarts: 1, delay: 100ms}
`))
	var r result
	eventually(t, time.Minute, "the log tells of both workers", func() error {
		r = verge(t, w.root.contextFile(), "logs", "crash.loop.0", "--timestamps")
		for _, worker := range []string{"edge-1", "edge-2"} {
			if r.code != 0 || !strings.Contains(r.err, "was on edge/"+worker+" before") {
				return fmt.Errorf("nothing of %s: %+v", worker, r)
			}
		}
		return nil
	})
	for line := range strings.Lines(r.out) {
		if !strings.HasSuffix(line, "Z fatal: cannot open config\n") {
			t.Errorf("in the log is %q", line)
		}
	}
	if n := strings.Count(r.out, "\n"); n < 4 { // two runs on each of two workers
		t.Errorf("%d lines:\n%s%s", n, r.out, r.err)
	}
}
