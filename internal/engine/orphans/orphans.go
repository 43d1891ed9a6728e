package orphans

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// maxEnviron is the most that Linux lets a process have (6 MiB of arguments and
// environment), so nothing is cut off.
const maxEnviron = 8 << 20

// Processes finds the processes of instances by their environment, where no file names them.
type Processes struct {
	Engine string // value of VERGE_ENGINE
}

// Find returns the processes of this engine by instance. first says that this engine has not
// started anything yet: commands beside instances are then those of a dead engine, and are killed.
func (s Processes) Find(first bool) (map[wire.InstanceID][]int, error) {
	found := make(map[wire.InstanceID][]int)
	err := s.each(func(pid int, o owner) error {
		switch {
		case o.instance == "":
		case first && o.command != "":
			return s.kill(pid, o.instance, func(now owner) bool { return now == o })
		default:
			found[o.instance] = append(found[o.instance], pid)
		}
		return nil
	})
	return found, err
}

// each calls f for every process but our own, until an error.
func (s Processes) each(f func(pid int, o owner) error) error {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("look for processes: %w", err)
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if err := f(pid, s.owner(pid)); err != nil {
			return err
		}
	}
	return nil
}

// owner is what a process belongs to, each "" if to none.
type owner struct {
	instance wire.InstanceID
	// command that ran beside it: what its envExec says.
	command string
}

// owner returns what a process belongs to. One that may not be looked at is
// another user's and so not ours.
func (s Processes) owner(pid int) (o owner) {
	env, err := atomicfile.ReadBounded(filepath.Join("/proc", strconv.Itoa(pid), "environ"), maxEnviron)
	if err != nil {
		return owner{}
	}
	var ours bool
	for v := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := bytes.Cut(v, []byte("="))
		switch string(name) {
		case state.EnvEngine:
			ours = string(value) == s.Engine
		case state.EnvInstance:
			o.instance = string(value)
		case state.EnvExec:
			o.command = string(value)
		}
	}
	if !ours {
		return owner{}
	}
	return o
}

// End kills the processes of an instance and returns when none is left.
func (s Processes) End(ctx context.Context, id wire.InstanceID) error {
	return s.endAll(ctx, id, func(o owner) bool { return o.instance == id })
}

// EndExec kills what a session has left and returns when nothing is.
func (s Processes) EndExec(ctx context.Context, session string) error {
	return s.endAll(ctx, "a session", func(o owner) bool { return o.command == session })
}

// endAll kills the processes whose owner is meant.
func (s Processes) endAll(ctx context.Context, whose string, meant func(owner) bool) error {
	// A process can start others while we look, so look until nothing is found.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		var left []int
		err := s.each(func(pid int, o owner) error {
			if !meant(o) {
				return nil
			}
			left = append(left, pid)
			return s.kill(pid, whose, meant)
		})
		if err != nil || len(left) == 0 {
			return err
		}
		t := time.NewTimer(5 * time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("end left-over processes of %s (%v): %w", whose, left, ctx.Err())
		case <-t.C:
		}
	}
}
