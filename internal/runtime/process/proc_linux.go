package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stat is what we use of /proc/<pid>/stat.
type stat struct {
	pid     int
	state   byte // Z is a zombie, X is dead
	ppid    int
	pgrp    int
	session int
	ticks   uint64 // of cpu, with waited-for children
	threads int
	started uint64 // ticks since boot
	rss     int64  // pages
	exit    int    // of a zombie, as wait has it; 0 where we may not read its memory
}

// gone says that the process has ended, waited for or not. One whose first
// thread has ended before the others shows as a zombie, too, and lives.
func (s stat) gone() bool { return (s.state == 'Z' || s.state == 'X') && s.threads <= 1 }

// readStat reads a process's stat; fs.ErrNotExist if there is none.
func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, unix.ESRCH) { // ended between open and read
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// parseStat parses "pid (name) state ppid …"; the name may hold anything,
// parentheses and spaces too.
func parseStat(b []byte) (stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("malformed stat %.60q", b)
	}
	f := strings.Fields(string(b[end+1:])) // f[0] is field 3 of proc(5)
	if len(f) < 22 || len(f[0]) != 1 {
		return stat{}, fmt.Errorf("malformed stat %.60q", b)
	}
	var bad error
	num := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil && bad == nil {
			bad = fmt.Errorf("malformed stat: %w", err)
		}
		return n
	}
	s := stat{
		pid:     int(num(strings.TrimSpace(string(b[:open])))),
		state:   f[0][0],
		ppid:    int(num(f[1])),
		pgrp:    int(num(f[2])),
		session: int(num(f[3])),
		ticks:   uint64(num(f[11]) + num(f[12]) + num(f[13]) + num(f[14])),
		threads: int(num(f[17])),
		started: uint64(num(f[19])),
		rss:     num(f[21]),
	}
	if len(f) > 49 {
		s.exit = int(num(f[49]))
	}
	return s, bad
}

// listProcesses reads the stat of every process of the machine.
func listProcesses() ([]stat, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer d.Close() //nolint:errcheck // read only
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []stat
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		s, err := readStat(pid)
		if err != nil {
			continue // ended meanwhile
		}
		out = append(out, s)
	}
	return out, nil
}

// bootID names this boot of the machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
