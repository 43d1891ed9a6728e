package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
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
