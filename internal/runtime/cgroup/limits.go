package cgroup

import "strconv"

// setting is a value to be written to a file of a group.
type setting struct {
	controller, file, value string
	// optional: kernels without the file (no swap accounting, old) do without.
	optional bool
}

// period of the cpu quota in microseconds, the kernel's default.
const period = 100_000

// Bounds that the kernel sets.
const (
	minShares, maxShares = 2, 262_144
	minWeight, maxWeight = 1, 10_000
	minQuota             = 1_000 // microseconds
)

// settings that impose l on a group of version 1 or 2. One core's reservation
// is the kernel's default share, so that instances compete fairly with what
// else runs on the machine.
func (l Limits) settings(v2 bool) []setting {
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	quota := max(l.CPULimit*(period/1000), minQuota)
	var out []setting
	if v2 {
		out = append(out, setting{"cpu", "cpu.weight", num(clamp(l.CPUWeight/10, minWeight, maxWeight)), false})
		if l.CPULimit > 0 {
			out = append(out, setting{"cpu", "cpu.max", num(quota) + " " + num(period), false})
		}
		if l.Memory > 0 {
			out = append(out,
				setting{"memory", "memory.max", num(l.Memory), false},
				setting{"memory", "memory.swap.max", "0", true},
				setting{"memory", "memory.oom.group", "1", true})
		}
		if l.PIDs > 0 {
			out = append(out, setting{"pids", "pids.max", num(l.PIDs), false})
		}
		return out
	}
	out = append(out, setting{"cpu", "cpu.shares", num(clamp(l.CPUWeight*1024/1000, minShares, maxShares)), false})
	if l.CPULimit > 0 {
		out = append(out,
			setting{"cpu", "cpu.cfs_period_us", num(period), false},
			setting{"cpu", "cpu.cfs_quota_us", num(quota), false})
	}
	if l.Memory > 0 {
		out = append(out,
			setting{"memory", "memory.limit_in_bytes", num(l.Memory), false},
			setting{"memory", "memory.memsw.limit_in_bytes", num(l.Memory), true})
	}
	if l.PIDs > 0 {
		out = append(out, setting{"pids", "pids.max", num(l.PIDs), false})
	}
	return out
}

func clamp(n, lo, hi int64) int64 { return min(max(n, lo), hi) }
