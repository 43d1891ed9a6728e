package bench

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Use of some processes: PSS and Dirty are bytes of memory that they have now, Written
// the bytes that they caused to be written to disks since their start.
type Use struct {
	PSS, Dirty, Written int64
	// CPU since their start is exact, but knows nothing of threads that have ended;
	// Ticks counts those too, in steps of 10 ms.
	CPU, Ticks time.Duration
}

// Measure says what some processes use, together. It fails where one of them has ended.
func Measure(pids []int) (Use, error) {
	var sum Use
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		pss, err := Field(dir+"/smaps_rollup", "Pss:")
		if err != nil {
			return sum, err
		}
		dirty, err := Field(dir+"/smaps_rollup", "Private_Dirty:")
		if err != nil {
			return sum, err
		}
		written, err := Field(dir+"/io", "write_bytes:")
		if err != nil {
			return sum, err
		}
		ticks, err := Ticks(pid)
		if err != nil {
			return sum, err
		}
		cpu, err := cpuTime(dir)
		if err != nil {
			return sum, err
		}
		sum.PSS += pss << 10 // smaps counts in KiB
		sum.Dirty += dirty << 10
		sum.Written += written
		sum.CPU += cpu
		sum.Ticks += ticks
	}
	return sum, nil
}

// Field is the number after a name at the beginning of a line.
func Field(file, name string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return strconv.ParseInt(f[1], 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", file, name)
}

// Ticks is user and system time of a process, which the kernel gives in hundredths.
func Ticks(pid int) (time.Duration, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	// Fields 14 and 15; the name, field 2, may hold spaces and ends with ).
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 13 {
		return 0, fmt.Errorf("%s has only %d fields", file, len(f))
	}
	var ticks int64
	for _, s := range f[11:13] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// cpuTime is what the threads of a process that are there now have run, as the
// scheduler counts it.
func cpuTime(dir string) (time.Duration, error) {
	threads, err := os.ReadDir(dir + "/task")
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, t := range threads {
		b, err := os.ReadFile(dir + "/task/" + t.Name() + "/schedstat")
		if errors.Is(err, os.ErrNotExist) {
			continue // just ended
		}
		if err != nil {
			return 0, err
		}
		f := strings.Fields(string(b))
		if len(f) == 0 {
			return 0, fmt.Errorf("%s/task/%s/schedstat is empty", dir, t.Name())
		}
		ns, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s/task/%s/schedstat: %w", dir, t.Name(), err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}
