package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestTidy(t *testing.T) {
	const mountinfo = "24 1 0:22 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro,mode=755\n" +
		"25 24 0:23 / /sys/fs/cgroup/free\\040zer rw - cgroup cgroup rw,freezer\n" +
		"26 24 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\nrubbish\n27 24\n"
	if got, want := tops(mountinfo), []string{"/sys/fs/cgroup/free zer", "/sys/fs/cgroup/unified"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	one, other := t.TempDir(), t.TempDir()
	m := newManager("base")
	m.tops = func() []string { return []string{one, other, filepath.Join(other, "absent")} }
	for _, dir := range []string{one + m.Inner("left"), other + m.Inner("left/used"), one + m.Inner("another")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.Tidy("left")
	m.Tidy("")
	m.Tidy("..")
	for path, want := range map[string]bool{one + m.Inner("left"): false, other + m.Inner("left/used"): true, one + m.Inner("another"): true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want that it is there: %t", path, err, want)
		}
	}
}
