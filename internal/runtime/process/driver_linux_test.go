package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
)

func testDriver(t testing.TB, o Options) *Driver {
	t.Helper()
	if o.Base == "" {
		o.Base = t.TempDir()
	}
	d := New(o)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func script(t testing.TB, s string) runtime.Spec {
	t.Helper()
	return runtime.Spec{
		ID: "app.web.0", Command: []string{"/bin/sh", "-c", s}, Env: []string{"PATH=/usr/bin:/bin"},
		Dir: t.TempDir(), LogDir: t.TempDir(), CPUWeight: 250,
	}
}

func mustStart(t testing.TB, d *Driver, s runtime.Spec) runtime.Task {
	t.Helper()
	spareOf(t, d)
	task, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return task
}

func TestProbeSaysWhatIsMissing(t *testing.T) {
	missing, err := testDriver(t, Options{NoCgroups: true}).Probe()
	if err != nil || !strings.Contains(missing, "limits are not enforced") {
		t.Errorf("without control groups: %q, %v", missing, err)
	}
	d := testDriver(t, Options{})
	missing, err = d.Probe()
	if err != nil {
		t.Fatal(err)
	}
	all := d.Enforces("cpu") && d.Enforces("memory") && d.Enforces("pids")
	if all != (missing == "") {
		t.Errorf("enforces all: %v, but says %q", all, missing)
	}
}

func TestCloseLeavesTasksRunning(t *testing.T) {
	base := t.TempDir()
	d := New(Options{Base: base})
	s := script(t, "exec sleep 1000")
	first, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := first.Wait(context.Background())
		waited <- err
	}()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, errClosed) {
		t.Errorf("Wait after Close: %v", err)
	}
	if _, err := d.Start(t.Context(), s); err == nil {
		t.Error("a closed driver starts tasks")
	}
	task, err := testDriver(t, Options{Base: base}).Adopt(t.Context(), s, first.Handle())
	if err != nil {
		t.Fatalf("the task did not go on: %v", err)
	}
	if err := task.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e, err := task.Wait(t.Context()); err != nil || e.Signal != "KILL" {
		t.Errorf("exit %+v, %v", e, err)
	}
	if err := task.Cleanup(); err != nil {
		t.Error(err)
	}
}

func TestCloseRemovesEmptyParents(t *testing.T) {
	d := New(Options{Base: t.TempDir()})
	task, err := d.Start(t.Context(), script(t, "exit 0"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(task.Cleanup(), d.Close()); err != nil {
		t.Fatal(err)
	}
	for dir := range strings.SplitSeq(task.Handle().Cgroup, ":") {
		if _, err := os.Stat(filepath.Dir(dir)); dir != "" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", filepath.Dir(dir), err)
		}
	}
}

func TestSweep(t *testing.T) {
	d := testDriver(t, Options{})
	if !d.Enforces("pids") && !d.Enforces("memory") {
		t.Skip("NOT TESTED: Sweep needs control groups")
	}
	kept := mustStart(t, d, script(t, "exec sleep 1000"))
	forgotten := mustStart(t, d, script(t, "sleep 1000 & sleep 1000"))
	if kept.Handle().Cgroup == forgotten.Handle().Cgroup {
		t.Fatal("two tasks of one name share a group")
	}
	err := d.Sweep(t.Context(), func(path string) bool { return path == kept.Handle().Cgroup })
	if err != nil {
		t.Fatal(err)
	}
	if e, err := forgotten.Wait(t.Context()); err != nil || e.Signal != "KILL" {
		t.Errorf("forgotten: %+v, %v", e, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := kept.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("kept: %v", err)
	}
}

func TestKillForkBomb(t *testing.T) {
	d := testDriver(t, Options{MaxPIDs: 40})
	if !d.Enforces("pids") {
		t.Skip("NOT TESTED: a fork bomb needs the pids control group")
	}
	task := mustStart(t, d, script(t, "while :; do (exec sleep 0.1) & done"))
	tick, deadline := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for task.Usage().Tasks < 10 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not fork")
		}
	}
	if n := task.Usage().Tasks; n > 40 {
		t.Errorf("%d processes with a limit of 40", n)
	}
	if err := task.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	groups, err := d.groups.Groups()
	if err != nil || len(groups) != 1 {
		t.Fatalf("groups %v, %v", groups, err)
	}
	if pids, err := groups[0].PIDs(); err != nil || len(pids) != 0 {
		t.Errorf("processes %v are left, %v", pids, err)
	}
}

// A handle is read from disk and may be anything; its group must not lead
// outside of what this engine has made.
func TestAdoptRefusesForeignGroups(t *testing.T) {
	d := testDriver(t, Options{})
	task := mustStart(t, d, script(t, "exec sleep 1000"))
	h := task.Handle()
	if h.Cgroup == "" {
		t.Skip("NOT TESTED: needs control groups")
	}
	first := strings.Split(h.Cgroup, ":")[0]
	for _, path := range []string{
		filepath.Dir(first), filepath.Dir(filepath.Dir(first)), "/sys/fs/cgroup", "/", "/etc", "verge",
		first + "/../../../..", first + "/", first + ":/sys/fs/cgroup/memory",
		strings.Replace(first, filepath.Base(filepath.Dir(first)), "000000000000", 1),
	} {
		h := h
		h.Cgroup, h.PID = path, 1<<22+1 // gone, so that Adopt would kill leftovers
		if _, err := d.Adopt(t.Context(), script(t, ""), h); err == nil || errors.Is(err, runtime.ErrGone) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := task.Signal("CONT"); err != nil {
		t.Errorf("the living task suffered: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	const line = `4242 (a) S (b c) R 1 4242 4241 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 7 0 987654 1000 55 18446744073709551615 1 1`
	s, err := parseStat([]byte(line))
	want := stat{pid: 4242, state: 'R', ppid: 1, pgrp: 4242, session: 4241, ticks: 100, threads: 7, started: 987654, rss: 55}
	if err != nil || s != want {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, bad := range []string{"", "1 (a", "1 (a) R 1 2", strings.Replace(line, "987654", "x", 1)} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q parsed as %+v", bad, s)
		}
	}
	self, err := readStat(os.Getpid())
	if err != nil || self.pid != os.Getpid() || self.ppid != os.Getppid() || self.gone() {
		t.Errorf("self: %+v, %v", self, err)
	}
}

func TestTreeFollowsChildrenIntoNewSessions(t *testing.T) {
	p := func(pid, ppid, session int) stat { return stat{pid: pid, ppid: ppid, session: session, started: 1} }
	tr := newTree(10)
	pids := func(all ...stat) string {
		var out []string
		for _, s := range tr.members(all) {
			out = append(out, strconv.Itoa(s.pid))
		}
		return strings.Join(out, " ")
	}
	// 12 has a session of its own, 13 is its child; 99 is a stranger.
	if got := pids(p(13, 12, 12), p(12, 10, 12), p(10, 1, 10), p(99, 1, 99)); got != "12 10 13" && got != "10 12 13" {
		t.Errorf("first look: %s", got)
	}
	// 10 and 12 are dead; 13 has forked 14 in the session and has another parent.
	if got := pids(p(13, 1, 12), p(14, 13, 12), p(99, 1, 99)); got != "13 14" {
		t.Errorf("second look: %s", got)
	}
	// The number of a dead member is used again.
	if got := pids(stat{pid: 13, ppid: 1, session: 99, started: 2}); got != "" {
		t.Errorf("a stranger with an old number: %s", got)
	}
}

// BenchmarkStartWait is one start of the smallest program, its end and its
// cleanup; cpu/op is what it costs this process, in user and system time.
func BenchmarkStartWait(b *testing.B) {
	for _, c := range []struct {
		name string
		o    Options
	}{{"detected", Options{}}, {"plain", Options{NoCgroups: true}}} {
		b.Run(c.name, func(b *testing.B) {
			d := testDriver(b, c.o)
			s := script(b, "")
			s.Command = []string{"/bin/true"}
			before := cpuTime(b)
			for b.Loop() {
				task, err := d.Start(b.Context(), s)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := task.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				if err := task.Cleanup(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
