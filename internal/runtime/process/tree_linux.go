package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/logfile"
)

// killTree kills the process, its session and its descendants, and returns when
// none is left. It is for tasks without a control group.
func (p *process) killTree(ctx context.Context, logDir string) error {
	if !p.holdsPID() { // adopted, and somebody else has reaped it
		return killOrphans(ctx, runtime.Handle{PID: p.pid, Started: p.started, Boot: p.boot}, logDir)
	}
	tree := newTree(p.pid)
	return killAll(ctx, func(all []stat) []stat { return tree.members(all) })
}

// holdsPID says whether the pid is still this process's, alive or a zombie.
func (p *process) holdsPID() bool {
	st, err := readStat(p.pid)
	return err == nil && st.started == p.started
}

// killAll kills what pick finds among all processes until it finds nothing.
func killAll(ctx context.Context, pick func(all []stat) []stat) error {
	pause := time.Millisecond
	for {
		all, err := listProcesses()
		if err != nil {
			return err
		}
		var left []int
		for _, st := range pick(all) {
			if st.gone() || st.pid == os.Getpid() {
				continue
			}
			if err := unix.Kill(st.pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("kill process %d: %w", st.pid, err)
			}
			left = append(left, st.pid)
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v do not end: %w", left, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
}

// tree remembers what belongs to a task from one look to the next: a child
// whose parent was killed has another parent then, but the same session.
type tree struct {
	sessions map[int]bool
	pids     map[int]uint64 // start time by pid
}

func newTree(session int) *tree {
	return &tree{sessions: map[int]bool{session: true}, pids: map[int]uint64{}}
}

// members returns the processes that belong to the tree: those of its sessions,
// their descendants, and the sessions that descendants have opened.
func (t *tree) members(all []stat) []stat {
	var out []stat
	in := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, st := range all {
			if in[st.pid] {
				continue
			}
			known := t.pids[st.pid] == st.started && st.started != 0
			if !known && !t.sessions[st.session] && !in[st.ppid] {
				continue
			}
			in[st.pid], grown = true, true
			t.pids[st.pid] = st.started
			if st.session == st.pid {
				t.sessions[st.session] = true
			}
			out = append(out, st)
		}
	}
	return out
}

// killOrphans kills what is left of the session of a task whose main process is
// gone. As the session's number may have been used again since, only processes
// that still write to the task's log count.
func killOrphans(ctx context.Context, h runtime.Handle, logDir string) error {
	var logs []os.FileInfo
	for _, path := range []string{logfile.Pipe(logDir), logfile.Live(logDir)} { // of an older version, too
		st, err := os.Stat(path)
		if err == nil {
			logs = append(logs, st)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(logs) == 0 {
		return nil
	}
	return killAll(ctx, func(all []stat) []stat {
		var out []stat
		for _, st := range all {
			if st.session == h.PID && st.started >= h.Started && writesTo(st.pid, logs) {
				out = append(out, st)
			}
		}
		return out
	})
}

// writesTo says whether stdout or stderr of a process is one of the files.
func writesTo(pid int, files []os.FileInfo) bool {
	for _, fd := range []string{"1", "2"} {
		st, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/fd/" + fd)
		if err == nil && slices.ContainsFunc(files, func(f os.FileInfo) bool { return os.SameFile(st, f) }) {
			return true
		}
	}
	return false
}
