package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

const siteHost = "site.test"

// site is a front that is reached from outside, with a single job beside it.
func site(mark string) string {
	return fmt.Sprintf(`application: site
services:
  front:
    command: [testprogram]
    env: {MARK: %q}
    replicas: 2
    replace_after: 60s
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
  job:
    command: [testprogram]
    replicas: 1
    replace_after: 60s
    ports:
      - name: http
`, mark, siteHost)
}

// TestWorkerProcesses kills and replaces the two processes of a worker while
// what they run goes on.
func TestWorkerProcesses(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	w.root.apply(site("1"))
	w.run("agent dies while an instance exits", w.agentDies)
	w.run("agent is upgraded", w.agentIsUpgraded)
	w.run("engine dies", w.engineDies)
	w.run("engine dies while an instance exits", w.engineDiesDuringExit)
	w.run("explain is replayed", w.explainIsReplayed)
	w.run("update rolls", w.updateRolls)
	w.run("secrets are kept", w.secretsAreKept)
	w.run("power cut", w.powerCut)
	w.run("delete", w.deleteEndsEverything)
}

// holder is the worker that runs an instance.
func (w *world) holder(id wire.InstanceID) *worker {
	w.t.Helper()
	i := must[apiv1.InstanceView](w.t)(w.root.client().Instances.Get(context.Background(), id))
	x := w.worker[i.Worker]
	if x == nil {
		w.t.Fatalf("%s is on no worker: %+v", id, i)
	}
	return x
}

const job = "site.job.0"

// exitWith lets the instance end by itself.
func exitWith(t *testing.T, r running, code int) {
	t.Helper()
	if _, err := fetch("127.0.0.1:"+r.port, "", "/exit?code="+strconv.Itoa(code)); err != nil {
		t.Fatalf("asking the instance to exit: %v", err)
	}
}

// startedAgain waits until another process runs the instance.
func startedAgain(t *testing.T, x *worker, id wire.InstanceID, before int) {
	t.Helper()
	eventually(t, 20*time.Second, id+" runs again", func() error {
		if r, ok := runningIn(t, x.dir)[id]; !ok || r.pid == before {
			return fmt.Errorf("pid %d, it was %d", r.pid, before)
		}
		return nil
	})
}

func (w *world) agentDies(t *testing.T) {
	x := w.holder(job)
	before := runningIn(t, x.dir)[job]
	entry := must[string](t)(fetch("127.0.0.1:"+before.port, "", "/env?name=VERGE_FRONT_ADDR"))
	streams := []*stream{openStream(t, x.gateway, siteHost), openStream(t, entry, "front")}
	const size, lines = 120, 60_000 // 7 MB, more than the live part of a log
	say := func(from, to int) {
		t.Helper()
		must[string](t)(fetch("127.0.0.1:"+before.port, "", fmt.Sprintf("/lines?from=%d&to=%d&size=%d", from, to, size)))
	}
	say(0, 100)
	x.kill()
	say(100, lines)
	logDir := filepath.Join(x.dir, "instances", job, "log")
	eventually(t, 15*time.Second, "the log is rotated without an agent", func() error {
		files, err := os.ReadDir(logDir)
		if err == nil && len(files) < 2 {
			err = fmt.Errorf("%d files", len(files))
		}
		return err
	})
	exitWith(t, before, 7)
	startedAgain(t, x, job, before.pid)
	if x.running() {
		t.Fatal("the agent is back too early: nothing was tested")
	}
	x.start()
	eventually(t, 15*time.Second, "describe shows the exit code", func() error {
		text := w.root.ok("describe", "instance/"+job)
		if !regexp.MustCompile(`(?m)^Last exit:\s+code 7,`).MatchString(text) || !regexp.MustCompile(`(?m)^Restarts:\s+1$`).MatchString(text) {
			return fmt.Errorf("it says\n%s", text)
		}
		return nil
	})
	w.root.holds("site", 10*time.Second)
	wantEqual(t, "restarts", w.root.instances("site")[job].Restarts, 1)
	for _, s := range streams {
		s.unbroken(t)
	}
	checkLines(t, w.root.ok("logs", job), lines)
}

// checkLines looks for every numbered line once, in order, and for both starts.
func checkLines(t *testing.T, log string, want int) {
	t.Helper()
	next, starts := 0, 0
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "started ") {
			starts++
		}
		number, ok := strings.CutPrefix(line, "line ")
		if !ok {
			continue
		}
		number, _, _ = strings.Cut(number, " ")
		n, err := strconv.Atoi(number)
		if err != nil || n != next {
			t.Fatalf("line %d is followed by %.40q", next-1, line)
		}
		next++
	}
	wantEqual(t, "numbered lines", next, want)
	wantEqual(t, "starts in the log", starts, 2)
}

func (w *world) agentIsUpgraded(t *testing.T) {
	pids := w.pids("site")
	before := w.root.instances("site")
	x := w.holder(job)
	engine := enginePID(t, x)
	s := openStream(t, x.gateway, siteHost)
	x.signal(syscall.SIGTERM)
	wantEqual(t, "exit code of the agent", x.wait(), 0)
	// The new program lies elsewhere, as after an installation of another version.
	data := must[[]byte](t)(os.ReadFile(programs.verge))
	x.path = filepath.Join(w.dir, "verge-next")
	if err := os.WriteFile(x.path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	x.start()
	w.allReady()
	w.root.holds("site", 10*time.Second)
	throughout(t, time.Second, "nothing was restarted", func() error {
		if now := w.pids("site"); !maps.Equal(now, pids) {
			return fmt.Errorf("pids were %v, are %v", pids, now)
		}
		return nil
	})
	for id, i := range w.root.instances("site") {
		wantEqual(t, "restarts of "+id, i.Restarts, before[id].Restarts)
		wantEqual(t, "incarnation of "+id, i.Incarnation, before[id].Incarnation)
	}
	wantEqual(t, "pid of the engine", enginePID(t, x), engine)
	s.unbroken(t)
}

// enginePID is the process that is the worker's engine.
func enginePID(t *testing.T, x *worker) int {
	t.Helper()
	for _, pid := range engines(x) {
		return pid
	}
	t.Fatalf("%s has no engine", x.name)
	return 0
}

func (w *world) engineDies(t *testing.T) {
	x := w.holder(job)
	pids := w.pids("site")
	before := w.root.instances("site")
	old := enginePID(t, x)
	begin := time.Now()
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "an engine runs and its gateway answers", func() error {
		_, err := fetch(x.gateway, siteHost, "/whoami")
		return err
	})
	t.Logf("the gateway answered again after %s", time.Since(begin).Round(time.Millisecond))
	if enginePID(t, x) == old {
		t.Fatal("the old engine still runs")
	}
	w.root.holds("site", 10*time.Second)
	throughout(t, time.Second, "the instances were adopted", func() error {
		if now := w.pids("site"); !maps.Equal(now, pids) {
			return fmt.Errorf("pids were %v, are %v", pids, now)
		}
		return nil
	})
	for id, i := range w.root.instances("site") {
		wantEqual(t, "restarts of "+id, i.Restarts, before[id].Restarts)
	}
}

func (w *world) engineDiesDuringExit(t *testing.T) {
	x := w.holder(job)
	before := runningIn(t, x.dir)
	x.kill() // it would start the engine at once
	if err := syscall.Kill(enginePID(t, x), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exitWith(t, before[job], 9)
	eventually(t, 5*time.Second, "the instance is gone", func() error {
		if _, ok := runningIn(t, x.dir)[job]; ok {
			return fmt.Errorf("pid %d", before[job].pid)
		}
		return nil
	})
	x.start()
	startedAgain(t, x, job, before[job].pid)
	eventually(t, 15*time.Second, "the exit code is said to be unknown", func() error {
		text := w.root.ok("describe", "instance/"+job)
		if !regexp.MustCompile(`(?m)^Last exit:\s+exit code unknown`).MatchString(text) {
			return fmt.Errorf("it says\n%s", text)
		}
		return nil
	})
	w.root.holds("site", 10*time.Second)
	for id, r := range before {
		if id != job {
			wantEqual(t, "pid of "+id, runningIn(t, x.dir)[id].pid, r.pid)
		}
	}
}
