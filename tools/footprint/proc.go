package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// use of some processes since their start; memory is that of now. In bytes.
type use struct {
	pss, dirty, written int64
	// cpu is exact, but knows nothing of threads that have ended; ticks counts
	// those too, in steps of 10 ms.
	cpu, ticks time.Duration
}

func measure(pids []int) (use, error) {
	var sum use
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		pss, err := field(dir+"/smaps_rollup", "Pss:")
		if err != nil {
			return sum, err
		}
		dirty, err := field(dir+"/smaps_rollup", "Private_Dirty:")
		if err != nil {
			return sum, err
		}
		written, err := field(dir+"/io", "write_bytes:")
		if err != nil {
			return sum, err
		}
		ticks, err := tickTime(dir + "/stat")
		if err != nil {
			return sum, err
		}
		cpu, err := cpuTime(dir)
		if err != nil {
			return sum, err
		}
		sum.pss += pss << 10 // smaps counts in KiB
		sum.dirty += dirty << 10
		sum.written += written
		sum.cpu += cpu
		sum.ticks += ticks
	}
	return sum, nil
}

// field is the number after a name at the beginning of a line.
func field(file, name string) (int64, error) {
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

// tickTime is user and system time, which the kernel gives in hundredths.
func tickTime(file string) (time.Duration, error) {
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

// headers of one packet: IPv4, and TCP with timestamps.
const headers = 20 + 32

// carried is what the TCP connections of some processes have carried.
type carried struct {
	packets, bytes int64
	conns          string // which connections those are
}

// continues says whether w is of the same connections as before.
func (w carried) continues(before carried) error {
	if w.conns != before.conns {
		return fmt.Errorf("the connections of the worker changed meanwhile, from %s to %s", before.conns, w.conns)
	}
	return nil
}

// traffic asks the kernel, through ss, what the connections of processes have
// carried. It counts every segment, acknowledgements included.
func traffic(ctx context.Context, pids []int) (w carried, err error) {
	out, err := exec.CommandContext(ctx, "ss", "-tinHpO", "state", "established").Output()
	if err != nil {
		return w, fmt.Errorf("ss (package iproute2) is needed: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		ours := false
		for _, pid := range pids {
			ours = ours || strings.Contains(line, fmt.Sprintf("pid=%d,", pid))
		}
		if !ours {
			continue
		}
		fields := strings.Fields(line)
		w.conns += " " + fields[2] + "-" + fields[3]
		for _, f := range fields {
			name, value, _ := strings.Cut(f, ":")
			into := map[string]*int64{
				"segs_out": &w.packets, "segs_in": &w.packets, "bytes_sent": &w.bytes, "bytes_received": &w.bytes,
			}[name]
			if into == nil {
				continue
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return w, fmt.Errorf("ss says %q: %w", f, err)
			}
			*into += n
		}
	}
	if w.packets == 0 {
		return w, errors.New("ss does not count the worker's packets here")
	}
	return w, nil
}
