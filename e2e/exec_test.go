package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestExec runs programs beside an instance while parts of the way there die.
func TestExec(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	w.root.apply(`application: box
services:
  one:
    command: [testprogram]
    env: {MARK: "1"}
    ports: [{name: http}]
`)
	w.root.holds("box", 20*time.Second)
	pids := w.pids("box")
	w.run("by the root", func(t *testing.T) { execBasics(t, w, w.root) })
	w.run("by the cluster", func(t *testing.T) { execBasics(t, w, w.cluster["edge"]) })
	w.run("agent dies", func(t *testing.T) { execSurvives(t, w.root, w.worker["edge-1"].daemon) })
	w.run("cluster dies", func(t *testing.T) { execSurvives(t, w.root, w.cluster["edge"].daemon) })
	w.run("root dies", func(t *testing.T) { execSurvives(t, w.root, w.root.daemon) })
	w.run("root is away", func(t *testing.T) {
		w.root.kill()
		execBasics(t, w, w.cluster["edge"])
		if r := verge(t, w.root.contextFile(), "exec", "box.one.0", "--", "true"); r.code != 1 {
			t.Errorf("without a root: %+v", r)
		}
		w.root.start()
		w.root.answers()
		w.allReady()
	})
	w.run("client ends", func(t *testing.T) { execEndsWithClient(t, w) })
	w.run("engine dies", func(t *testing.T) { execEndsWithEngine(t, w) })
	if now := w.pids("box"); fmt.Sprint(now) != fmt.Sprint(pids) {
		t.Errorf("the instance was started again: %v, %v", pids, now)
	}
}

// execBasics: surroundings, input, exit code, terminal.
func execBasics(t *testing.T, w *world, x *tier) {
	r := verge(t, x.contextFile(), "exec", "instance/box.one.0", "--", "sh", "-c", "echo $VERGE_INSTANCE $MARK; pwd; echo problem >&2; exit 4")
	wantOut := "box.one.0 1\n" + w.worker["edge-1"].dir + "/instances/box.one.0/work\n"
	if r.code != 4 || r.out != wantOut || r.err != "problem\n" {
		t.Errorf("%+v, want %q", r, wantOut)
	}
	in := strings.Repeat("a line of input\n", 30_000)
	if r := vergeIn(t, x.contextFile(), in, "exec", "box.one", "-i", "--", "cat"); r.code != 0 || r.out != in {
		t.Errorf("input: exit %d, %d bytes of %d, %s", r.code, len(r.out), len(in), r.err)
	}
	if r := verge(t, x.contextFile(), "exec", "box.one", "-t", "--", "sh", "-c", "test -t 0 && stty size"); r.code != 0 || r.out != "24 80\r\n" {
		t.Errorf("terminal: %+v", r)
	}
	if r := verge(t, x.contextFile(), "exec", "box.one", "--", "no-such-program"); r.code != 1 || !strings.Contains(r.err, "command not found") {
		t.Errorf("what is not there: %+v", r)
	}
}

// commandLine is a running command line.
type commandLine struct {
	cmd *exec.Cmd
	out watched
	err watched
}

// watched is output that may be looked at while it grows.
type watched struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// beginExec runs a script beside the instance.
func beginExec(t *testing.T, x *tier, script string) *commandLine {
	t.Helper()
	c := &commandLine{cmd: exec.Command(programs.verge, "exec", "box.one.0", "--", "sh", "-c", script)}
	c.cmd.Env = environment("VERGE_CONTEXT=" + x.contextFile())
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_, _ = c.cmd.Process.Kill(), c.cmd.Wait()
		}
	})
	eventually(t, 10*time.Second, "the program runs", func() error {
		if c.out.String() == "" {
			return fmt.Errorf("nothing yet: %s", c.err.String())
		}
		return nil
	})
	return c
}

// execSurvives: a part dies in the middle of a session, comes back, and nothing of
// the session is lost or twice.
func execSurvives(t *testing.T, x *tier, part *daemon) {
	const n = 40
	c := beginExec(t, x, fmt.Sprintf("echo 0; for i in $(seq %d); do echo $i; sleep 0.1; done; exit 3", n))
	part.kill()
	part.start()
	_ = c.cmd.Wait() // its exit code is looked at
	var want strings.Builder
	for i := range n + 1 {
		fmt.Fprintln(&want, i)
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 3 || c.out.String() != want.String() {
		t.Errorf("exit %d\n%s\n%s", code, c.out.String(), c.err.String())
	}
	x.w.allReady()
}

// program is the pid that a session's program has printed.
func (c *commandLine) program(t *testing.T) int {
	t.Helper()
	var pid int
	if _, err := fmt.Sscan(c.out.String(), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func gone(pid int) error {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// A zombie is gone: who reaps orphans is the machine's affair.
	if _, state, _ := strings.Cut(string(stat), ") "); err == nil && !strings.HasPrefix(state, "Z") {
		return fmt.Errorf("process %d is there", pid)
	}
	return nil
}

// execEndsWithClient: whoever is interrupted ends its program.
func execEndsWithClient(t *testing.T, w *world) {
	c := beginExec(t, w.root, "trap '' TERM INT; echo $$; sleep 1000")
	pid := c.program(t)
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // its exit code is looked at
	wantEqual(t, "exit code", c.cmd.ProcessState.ExitCode(), 130)
	eventually(t, 5*time.Second, "the program is gone", func() error { return gone(pid) })
}

// execEndsWithEngine: the session is lost with the engine, and its program.
func execEndsWithEngine(t *testing.T, w *world) {
	c := beginExec(t, w.root, "trap '' TERM HUP; echo $$; sleep 1000")
	pid := c.program(t)
	if err := syscall.Kill(enginePID(t, w.worker["edge-1"]), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // its exit code is looked at
	if code := c.cmd.ProcessState.ExitCode(); code != 255 || !strings.Contains(c.err.String(), "the engine of its worker ended") {
		t.Errorf("exit %d: %s", code, c.err.String())
	}
	eventually(t, 5*time.Second, "the program is gone", func() error { return gone(pid) })
	w.root.holds("box", 20*time.Second)
}
