package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

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
