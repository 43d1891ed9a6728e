package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	// unix has pidfd, by which a signal reaches the process that was looked at
	// and not another that got its number since.
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/wire"
)

// maxEnviron is the most that Linux lets a process have (6 MiB of arguments and
// environment), so nothing is cut off.
const maxEnviron = 8 << 20

// strays finds the processes of an engine's instances by what was put into their
// environment at their start, for those cases in which no file names them.
type strays struct {
	engine string // value of VERGE_ENGINE
}

// find returns the processes of this engine's instances, by instance. first says
// that this engine has not started anything yet: then commands beside instances
// are a dead engine's, which nobody waits for any more, and are killed.
func (s strays) find(first bool) (map[wire.InstanceID][]int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	found := make(map[wire.InstanceID][]int)
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		id, command := s.owner(pid)
		if id != "" && command && first {
			if err := s.kill(pid, id); err != nil {
				return nil, err
			}
			continue
		}
		if id != "" {
			found[id] = append(found[id], pid)
		}
	}
	return found, nil
}

// owner returns the instance that a process belongs to, "" if to none, and
// whether it is of a command that ran beside it. A process that may not be looked
// at is another user's and so not ours.
func (s strays) owner(pid int) (id wire.InstanceID, command bool) {
	env, err := atomicfile.ReadBounded(filepath.Join("/proc", strconv.Itoa(pid), "environ"), maxEnviron)
	if err != nil {
		return "", false
	}
	var ours bool
	for v := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := bytes.Cut(v, []byte("="))
		switch string(name) {
		case envEngine:
			ours = string(value) == s.engine
		case envInstance:
			id = string(value)
		case envExec:
			command = true
		}
	}
	if !ours {
		return "", false
	}
	return id, command
}

// end kills the processes of an instance and returns when none is left.
func (s strays) end(ctx context.Context, id wire.InstanceID) error {
	// A process can start others while we look, so look until nothing is found.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		found, err := s.find(false)
		if err != nil {
			return err
		}
		if len(found[id]) == 0 {
			return nil
		}
		for _, pid := range found[id] {
			if err := s.kill(pid, id); err != nil {
				return err
			}
		}
		t := time.NewTimer(5 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("end left-over processes of %s (%v): %w", id, found[id], ctx.Err())
		case <-t.C:
		}
	}
}

// kill ends one process if it is still the one that was found.
func (s strays) kill(pid int, id wire.InstanceID) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end left-over process %d of %s: %w", pid, id, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if owner, _ := s.owner(pid); owner != id {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end left-over process %d of %s: %w", pid, id, err)
	}
	return nil
}
