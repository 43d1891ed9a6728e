package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// In these tests the kernel's files are ordinary ones. Real groups are tested by
// the driver's suite.

func TestDescribeMissing(t *testing.T) {
	for _, c := range []struct {
		have    string
		mounted bool
		reasons []string
		want    string
	}{
		{"cpu memory pids", true, nil, ""},
		{"cpu memory pids", true, []string{"of no consequence"}, ""},
		{"", false, nil, "no control groups (none is mounted): limits are not enforced"},
		{"", true, []string{"denied", "denied as well"}, "no control groups (denied): limits are not enforced"},
		{"cpu pids", true, nil, "no memory control group (the kernel or its administrator has not enabled them): " +
			"limits of memory are not enforced"},
		{"memory", true, []string{"denied"}, "no cpu, pids control group (denied): limits of cpu, pids are not enforced"},
	} {
		have := map[string]bool{}
		for _, h := range strings.Fields(c.have) {
			have[h] = true
		}
		if got := describeMissing(have, c.mounted, c.reasons); got != c.want {
			t.Errorf("have %q: %q, want %q", c.have, got, c.want)
		}
	}
}

func TestUseSaysWhy(t *testing.T) {
	m := newManager("base")
	m.use([]mount{{point: "/proc", own: "/proc", controllers: []string{"memory"}}})
	if want := "on /proc/verge): limits are not enforced"; !strings.Contains(m.Missing(), want) {
		t.Errorf("%q does not say %q", m.Missing(), want)
	}
	if _, err := m.Create("x", Limits{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Create: %v", err)
	}
	m = newManager("base")
	m.use(nil)
	if !strings.Contains(m.Missing(), "none is mounted") {
		t.Errorf("%q", m.Missing())
	}
}

func TestReadings(t *testing.T) {
	write := func(dir string, files map[string]string) {
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	v2, v1 := t.TempDir(), t.TempDir()
	write(v2, map[string]string{
		"cpu.stat": "usage_usec 2500000\nuser_usec 1\n", "memory.current": "5000\n", "pids.current": "3\n",
		"memory.stat": "anon 1\ninactive_file 1000\n", "memory.events": "low 0\noom 4\noom_kill 2\noom_group_kill 1\n",
		"cgroup.procs": "",
	})
	write(v1, map[string]string{
		"cpuacct.usage": "1500000000\n", "memory.usage_in_bytes": "7000\n", "pids.current": "4\n",
		"memory.stat": "inactive_file 1\ntotal_inactive_file 2000\n", "memory.oom_control": "oom_kill_disable 0\noom_kill 5\n",
	})
	g := &Group{dirs: []dir{{path: v2, v2: true, controllers: []string{"cpu", "memory", "pids"}}}}
	if u := g.Usage(); u.CPU.Milliseconds() != 2500 || u.Memory != 4000 || u.PIDs != 3 || g.OOMKills() != 2 {
		t.Errorf("v2: %+v, %d OOM kills", u, g.OOMKills())
	}
	g = &Group{dirs: []dir{{path: v1, controllers: wanted}}}
	if u := g.Usage(); u.CPU.Milliseconds() != 1500 || u.Memory != 5000 || u.PIDs != 4 || g.OOMKills() != 5 {
		t.Errorf("v1: %+v, %d OOM kills", u, g.OOMKills())
	}
	g = &Group{}
	if u := g.Usage(); u != (Usage{-1, -1, -1}) || g.OOMKills() != 0 {
		t.Errorf("nothing: %+v, %d OOM kills", u, g.OOMKills())
	}
}

// Our own process is in a group for the instant of a fork and must survive its
// kill; 0 is a process of another namespace, and a signal to 0 is one to us.
func TestPIDsLeavesOutOurselves(t *testing.T) {
	d := t.TempDir()
	content := "0\n" + strconv.Itoa(os.Getpid()) + "\n12345\n"
	if err := os.WriteFile(filepath.Join(d, "cgroup.procs"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	pids, err := (&Group{dirs: []dir{{path: d}}}).PIDs()
	if err != nil || len(pids) != 1 || pids[0] != 12345 {
		t.Errorf("%v, %v", pids, err)
	}
	pids, err = (&Group{dirs: []dir{{path: filepath.Join(d, "absent")}}}).PIDs()
	if err != nil || len(pids) != 0 {
		t.Errorf("absent group: %v, %v", pids, err)
	}
}

func TestCreateFailureLeavesNothing(t *testing.T) {
	m := newManager("base")
	dir := t.TempDir()
	m.parents = []parent{{dir: dir, mount: mount{controllers: []string{"memory"}}}}
	// An ordinary directory has no memory.limit_in_bytes.
	if _, err := m.Create("x", Limits{Memory: 1}); err == nil || !strings.Contains(err.Error(), "memory.limit_in_bytes") {
		t.Errorf("Create: %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "a:b", strings.Repeat("x", 300)} {
		if _, err := m.Create(bad, Limits{}); err == nil {
			t.Errorf("name %q accepted", bad)
		}
	}
	// A name in use is not shared.
	a, err := m.Create("x", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.Create("x", Limits{})
	if err != nil || a.Path() == b.Path() {
		t.Errorf("%v, %v, %v", a.Path(), b, err)
	}
	if err := errors.Join(a.remove(), b.remove()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestV2Tops(t *testing.T) {
	top := t.TempDir()
	service := filepath.Join(top, "verge.service")
	if err := os.MkdirAll(filepath.Join(service, leafName), 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(own string, want ...string) {
		t.Helper()
		if got := v2Tops(mount{point: top, v2: true, own: own}); !reflect.DeepEqual(got, want) {
			t.Errorf("own %s: %v, want %v", own, got, want)
		}
	}
	check(top, top)
	check(service, top)
	if err := unix.Setxattr(service, "user.delegate", []byte("1"), 0); err != nil {
		t.Skipf("NOT TESTED: delegation; this file system has no user attributes: %v", err)
	}
	check(service, service, top)
	check(filepath.Join(service, leafName), service, top) // where an earlier engine was moved
}

// A delegated version 2 group, as systemd makes it with Delegate=yes: processes
// that are in it make room for groups beneath it.
func TestDelegatedV2(t *testing.T) {
	point, top := delegatedV2(t)
	inGroup := func(pid int) string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if p, ok := strings.CutPrefix(line, "0::"); ok {
				return strings.TrimSpace(p)
			}
		}
		return ""
	}
	old := &Group{dirs: []dir{{path: top, v2: true}}}
	oldPID := sleeper(t, old)

	m := newManager(t.TempDir())
	m.use([]mount{{point: point, v2: true, own: top}})
	t.Cleanup(m.Close)
	if got := inGroup(oldPID); !strings.HasSuffix(got, filepath.Base(top)+"/"+leafName) {
		t.Errorf("the service's process is in %s", got)
	}
	g, err := m.Create("x", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	pid := sleeper(t, g)
	if got := inGroup(pid); !strings.HasSuffix(got, filepath.Base(top)+"/verge/"+m.hash+"/x") {
		t.Errorf("the new process is in %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	again, err := m.Load(g.Path())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.Signal() != syscall.SIGKILL {
		t.Errorf("status %v, %v", ws, err)
	}
	if got := inGroup(oldPID); got == "" {
		t.Error("the service's process suffered")
	}
}

// delegatedV2 makes a group that is marked as delegated, if this machine
// permits, and removes it with all that is in it.
func delegatedV2(t *testing.T) (point, top string) {
	t.Helper()
	m := DetectV2(t.TempDir())
	t.Cleanup(m.Close)
	if len(m.mounts) == 0 {
		t.Skip("NOT TESTED: delegation; no version 2 hierarchy is mounted")
	}
	top = filepath.Join(m.mounts[0].own, fmt.Sprintf("verge-test-%d", os.Getpid()))
	if err := os.Mkdir(top, 0o755); err != nil {
		t.Skipf("NOT TESTED: delegation; %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := (&Group{dirs: []dir{{path: top, v2: true}}}).Remove(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Setxattr(top, "trusted.delegate", []byte("1"), 0); err != nil {
		t.Skipf("NOT TESTED: delegation; %v", err)
	}
	return m.mounts[0].point, top
}

// sleeper starts a process in a group.
func sleeper(t *testing.T, g *Group) (pid int) {
	t.Helper()
	attr := &syscall.ProcAttr{Env: []string{"PATH=/usr/bin:/bin"}, Sys: &syscall.SysProcAttr{}}
	err := g.Fork(attr.Sys, func() (err error) {
		pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exec sleep 1000"}, attr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // our child until it is reaped, so nobody else's pid
	})
	return pid
}
