package logs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// RotateEvery is how often the logs of what runs are looked at.
const RotateEvery = 5 * time.Second

// locate finds the directory of a log: that of the instance as it is here, or the one that
// was kept of an incarnation. running says whether a program writes to it now.
func (s *Store) locate(id wire.InstanceID, incarnation int) (dir string, running bool, err error) {
	if !state.ValidID(id) {
		return "", false, fmt.Errorf("%w: %q", state.ErrNoInstance, id)
	}
	if incarnation > 0 {
		dir := s.former.of(id, incarnation)
		if _, err := os.Stat(dir); err == nil {
			return dir, false, nil
		}
		// It may not have left yet. Of a later incarnation this is another log.
	}
	shown, known := s.o.Status(id)
	if !known || incarnation > 0 && shown.Incarnation != incarnation {
		return "", false, fmt.Errorf("%w: %q", state.ErrNoInstance, id)
	}
	return state.At(s.o.Dir, id).Log(), shown.PID != 0, nil
}

// logKeeper is a driver that reads what its tasks write, and keeps it within the bound of
// a log.
type logKeeper interface {
	// LogProblem says why what the task of a directory writes is not kept, nil if it is.
	LogProblem(logDir string) error
}

// Rotate looks after the log of an instance: one to which a program of an older version of
// the engine writes itself has no other bound.
func (s *Store) Rotate(id wire.InstanceID) {
	dir := state.At(s.o.Dir, id).Log()
	var err error
	if logfile.Direct(dir) {
		_, err = logfile.Rotate(dir, logfile.Options{Logger: s.o.Log})
		s.marks.look(id, dir, time.Now())
	}
	for _, d := range s.o.Drivers {
		if l, ok := d.(logKeeper); ok && err == nil {
			err = l.LogProblem(dir)
		}
	}
	s.o.Problems(state.LogSubject(id), err)
}

// Keep takes over the log of an incarnation that leaves, if there is anything in it.
func (s *Store) Keep(id wire.InstanceID, incarnation int) error {
	return s.former.keep(id, incarnation, state.At(s.o.Dir, id).Log(), time.Now())
}

// Forget drops what is remembered of an instance that has left.
func (s *Store) Forget(id wire.InstanceID) { s.marks.forget(id) }

// Expire removes the logs of instances that have left when their time is over, until ctx
// is done.
func (s *Store) Expire(ctx context.Context) { s.former.run(ctx, s.o.Problems) }

// RotateAll keeps the logs of what runs within their bounds, until ctx is done. running are
// the instances that run, and a channel that is closed when they may be others. While
// nothing runs it sleeps.
func (s *Store) RotateAll(ctx context.Context, running func() ([]wire.InstanceID, <-chan struct{})) {
	var timer *time.Timer
	for {
		ids, changed := running()
		if len(ids) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				continue
			}
		}
		for _, id := range ids {
			s.Rotate(id)
		}
		if timer == nil {
			timer = time.NewTimer(RotateEvery)
			defer timer.Stop()
		} else {
			timer.Reset(RotateEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// Store has the logs of the instances of an engine, and those of instances that have left.
type Store struct {
	o      Options
	marks  logMarks
	former *former
}

// Options of a Store.
type Options struct {
	// Dir is the directory of the engine.
	Dir     string
	Drivers map[string]runtime.Driver
	// Problems shows what is wrong with a subject; a nil error: nothing.
	Problems func(subject string, err error)
	// Status is what is shown of an instance.
	Status func(wire.InstanceID) (wire.InstanceStatus, bool)
	// Ended releases readers that wait for a log to grow.
	Ended <-chan struct{}
	Log   *slog.Logger
}

// New has the logs below a directory.
func New(o Options) *Store { return &Store{o: o, former: newFormer(o.Dir)} }
