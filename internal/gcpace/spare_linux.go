package gcpace

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// spare is how much memory, in bytes, this process could still have: what the machine has
// available, or less where a control group (version 2) limits it; 0 where that is not known.
func spare() uint64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	group, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	return min(available(data), unlimited("/sys/fs/cgroup", group))
}

// available reads what a machine has available from its /proc/meminfo.
func available(meminfo []byte) uint64 {
	_, rest, _ := bytes.Cut(meminfo, []byte("MemAvailable:"))
	if fields := bytes.Fields(rest); len(fields) > 0 {
		return number(fields[0], 0) << 10
	}
	return 0
}

// unlimited is what the limits of a group, whose line of /proc/self/cgroup is given, and of
// those above it leave free.
func unlimited(root string, group []byte) uint64 {
	left := uint64(math.MaxUint64)
	_, path, there := bytes.Cut(bytes.TrimSpace(group), []byte("0::"))
	if !there {
		return left // version 1, or none
	}
	for dir := filepath.Join(root, string(path)); len(dir) > len(root); dir = filepath.Dir(dir) {
		most, err := os.ReadFile(filepath.Join(dir, "memory.max"))
		if err != nil {
			continue
		}
		used, err := os.ReadFile(filepath.Join(dir, "memory.current"))
		if err != nil {
			continue
		}
		m, u := number(bytes.TrimSpace(most), math.MaxUint64), number(bytes.TrimSpace(used), 0)
		left = min(left, m-min(m, u))
	}
	return left
}

// number is a decimal one; other where it is none, as "max".
func number(text []byte, other uint64) uint64 {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return other
	}
	return n
}
