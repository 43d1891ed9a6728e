package engine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// script is a check by a shell script.
func script(text string, every time.Duration, failures int) *api.Check {
	return &api.Check{
		Exec: &api.ExecCheck{Command: []string{"sh", "-c", text}}, Interval: api.Duration(every), Failures: failures,
		Timeout: api.Duration(20 * time.Second),
	}
}

// workFile is a file in the working directory of web0.
func (b *bench) workFile(name string) string {
	return filepath.Join(b.dir, state.InstancesDir, web0, "work", name)
}

func (b *bench) touch(name string) {
	b.t.Helper()
	if err := os.WriteFile(b.workFile(name), nil, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func TestChecksOfRealProcesses(t *testing.T) {
	b := newBench(t)
	o := serverOrder(t)
	o.Spec.Startup = script("test -e up || { echo not up yet; exit 1; }", 200*time.Millisecond, 1000)
	o.Spec.Liveness = script(`[ "$VERGE_INSTANCE" = shop.web.0 ] || exit 2; test ! -e dead || { mv dead buried; echo it is dead; exit 7; }`, 100*time.Millisecond, 1)
	b.apply(o)
	b.until("it says why it has not started", func() bool {
		s := b.status(web0)
		return s.Phase == wire.PhasePending && strings.HasPrefix(s.Why,
			`startup command sh: exit code 1 "not up yet" (`) && s.PID != 0
	})
	b.touch("up")
	first := b.ready(0)
	if first.Phase != wire.PhaseRunning || first.Restarts != 0 {
		t.Errorf("%+v", first)
	}
	b.touch("dead")
	second := b.ready(first.PID)
	if second.Restarts != 1 || second.LastExit == nil || !strings.HasPrefix(second.LastExit.Why,
		`liveness command sh: exit code 7 "it is dead" (`) || second.LastExit.Signal != "TERM" {
		t.Errorf("%+v, %+v", second, second.LastExit)
	}
	if alive(first.PID) {
		t.Error("the dead one is alive")
	}
}

// TestEngineDiesDuringACheck: what it ran beside an instance ends with it or
// with its successor.
func TestEngineDiesDuringACheck(t *testing.T) {
	b := newBench(t)
	o := serverOrder(t)
	o.Spec.Liveness = script("echo $$$$ >pid.tmp; mv pid.tmp pid; exec sleep 1000", 50*time.Millisecond, 1)
	b.apply(o)
	before := b.ready(0)
	var pid int
	b.until("the check runs", func() bool {
		text, err := os.ReadFile(b.workFile("pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	b.kill()
	b.start()
	if alive(pid) {
		t.Errorf("process %d of the check is left", pid)
	}
	if s := b.ready(0); s.PID != before.PID || s.Restarts != 0 {
		t.Errorf("was %+v, is %+v", before, s)
	}
}

// TestSleepingMachine: engine and instance are stopped during a check for much
// longer than it may take, as when a laptop is closed.
func TestSleepingMachine(t *testing.T) {
	b := newBench(t)
	o := serverOrder(t)
	const timeout = 3 * time.Second // for a machine that is busy with other tests
	held := &api.Check{HTTP: &api.HTTPCheck{Path: "/held"}, Interval: api.Duration(50 * time.Millisecond),
		Timeout: api.Duration(timeout), Failures: 1}
	o.Spec.Startup = &api.Check{TCP: &api.TCPCheck{}}
	o.Spec.Liveness, o.Spec.Readiness = held, held
	b.apply(o)
	before := b.ready(0)
	seq := b.state().Seq
	asked := func() {
		t.Helper()
		if err := os.Remove(b.workFile("asked")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		b.until("a check is made", func() bool {
			_, err := os.Stat(b.workFile("asked"))
			return err == nil
		})
	}
	signal := func(sig syscall.Signal, pid int) {
		t.Helper()
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	b.touch("hold")
	asked()
	signal(syscall.SIGSTOP, before.PID)
	signal(syscall.SIGSTOP, b.cmd.Process.Pid)
	asleep := time.NewTimer(2*timeout + health.StallSlack + 500*time.Millisecond)
	<-asleep.C
	if err := os.Remove(b.workFile("hold")); err != nil {
		t.Fatal(err)
	}
	signal(syscall.SIGCONT, b.cmd.Process.Pid)
	signal(syscall.SIGCONT, before.PID)
	for range 3 {
		asked()
	}
	if s := b.state(); s.Seq != seq {
		t.Errorf("something changed: %+v", b.status(web0))
	}
	if s := b.status(web0); s.PID != before.PID || s.Restarts != 0 || !s.Ready {
		t.Errorf("%+v", s)
	}
}
