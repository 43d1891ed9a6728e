package gcpace

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// spare is how much memory, in bytes, this process could still have: what the machine has
// available, or less where a control group limits it; 0 where that is not known.
func spare() uint64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	return min(available(data), unlimited("/sys/fs/cgroup", groups))
}

// available reads what a machine has available from its /proc/meminfo.
func available(meminfo []byte) uint64 {
	_, rest, _ := bytes.Cut(meminfo, []byte("MemAvailable:"))
	if fields := bytes.Fields(rest); len(fields) > 0 {
		return number(fields[0], 0) << 10
	}
	return 0
}

// unlimited is what the limits of the groups of a process, from its /proc/self/cgroup, and of those
// above them leave free.
func unlimited(root string, groups []byte) uint64 {
	left := uint64(math.MaxUint64)
	for line := range strings.Lines(string(groups)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(line, ":")
		switch {
		case controllers == "": // version 2
			left = min(left, unused(root, path, "memory.max", "memory.current"))
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			left = min(left, unused(filepath.Join(root, "memory"), path, "memory.limit_in_bytes", "memory.usage_in_bytes"))
		}
	}
	return left
}

// unused is what the limits of a group and of those above it leave free, by the names of their
// files. In a container the root is the container's own group, and the path may be the host's.
func unused(root, path, limit, usage string) uint64 {
	left := uint64(math.MaxUint64)
	for dir := filepath.Join(root, filepath.Clean("/"+path)); ; dir = filepath.Dir(dir) {
		most, err := os.ReadFile(filepath.Join(dir, limit))
		used, uerr := os.ReadFile(filepath.Join(dir, usage))
		if err == nil && uerr == nil {
			m, u := number(bytes.TrimSpace(most), math.MaxUint64), number(bytes.TrimSpace(used), 0)
			left = min(left, m-min(m, u))
		}
		if dir == root {
			return left
		}
	}
}

// number is a decimal one; other where it is none, as "max".
func number(text []byte, other uint64) uint64 {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return other
	}
	return n
}
