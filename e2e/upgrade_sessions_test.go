package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/unixsock"
)

// numbered writes a line after the other into its log.
const numbered = `application: numbered
services:
  main:
    command: [sh, -c, "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.05; done"]
`

// lines is how many lines of numbered a client has printed; an error says which is
// missing or comes twice.
func (c *commandLine) lines() (n int, err error) {
	for s := bufio.NewScanner(strings.NewReader(c.out.String())); s.Scan(); n++ {
		if want := fmt.Sprint("line ", n); !strings.HasPrefix(want, s.Text()) {
			return n, fmt.Errorf("%q and not %q", s.Text(), want)
		}
	}
	return n, nil
}

// sessionsGoOn upgrades workers with people's sessions: a log is followed without a gap, a
// port is forwarded again, and who runs a program is told that it has ended and why.
func (w *world) sessionsGoOn(t *testing.T, next string) {
	w.root.apply(numbered)
	logs := w.root.goesOn("logs", "-f", "--no-prefix", "numbered.main.0")
	running := w.root.goesOn("exec", job, "--", "sh", "-c", "echo begun; sleep 1000")
	ports := forwarding(t, w.root, job, ":http")
	if got := ports.get(t, "/whoami"); !strings.Contains(got, job) {
		t.Errorf("before: %q", got)
	}
	eventually(t, 20*time.Second, "sessions have begun", func() error {
		n, err := logs.lines()
		if err == nil && (n < 10 || running.out.String() != "begun\n") {
			err = fmt.Errorf("%d lines, %q", n, running.out.String())
		}
		return err
	})
	for _, x := range w.worker {
		if r := verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--binary", next); r.code != 0 {
			t.Fatalf("upgrade: %+v", r)
		}
	}
	if got := ports.get(t, "/whoami"); !strings.Contains(got, job) {
		t.Errorf("a new connection after the upgrade: %q", got)
	}
	before, _ := logs.lines()
	eventually(t, 20*time.Second, "the log goes on", func() error {
		n, err := logs.lines()
		if err == nil && n < before+20 {
			err = fmt.Errorf("%d lines, %d before", n, before)
		}
		return err
	})
	var exit *exec.ExitError
	if err := running.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 255 {
		t.Errorf("a program that ended with its engine: %v", err)
	}
	if said := running.err.String(); !strings.Contains(said, "upgraded") || !strings.Contains(said, "run it again") {
		t.Errorf("of a program that ended with its engine: %q", said)
	}
	// The same with an engine that dies.
	// Of two, since the one before still drains.
	engine := must[int](t)(unixsock.Listener(t.Context(), filepath.Join(w.holder(job).dir, engineapi.EngineSocket)))
	if err := syscall.Kill(engine, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := ports.get(t, "/whoami"); !strings.Contains(got, job) {
		t.Errorf("a new connection after the engine's death: %q", got)
	}
	w.root.ok("delete", "application/numbered")
}
