package cgroup

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// tops are where hierarchies are mounted, of all controllers and of none, as
// /proc/self/mountinfo tells.
func tops(mountinfo string) (out []string) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if kind, _, _ := strings.Cut(after, " "); ok && len(f) >= 5 && (kind == "cgroup" || kind == "cgroup2") {
			out = append(out, unescape(f[4]))
		}
	}
	return out
}

// Tidy removes the group of that name in all hierarchies where nobody is in it, also in
// those that a Manager makes no groups in: a container runtime does, and one that is killed
// leaves them. For groups of DetectTop.
func (m *Manager) Tidy(name string) {
	if !validName(name) {
		return
	}
	for _, top := range m.tops() {
		_ = unix.Rmdir(top + m.Inner(name)) // it is not there, or not empty
	}
}

// readTops is tops of this process.
func readTops() []string {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return tops(string(b))
}
