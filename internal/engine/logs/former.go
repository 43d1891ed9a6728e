package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// Retention of the logs of instances that have left this worker. KeepFor is how long.
const (
	formerDir      = "former-logs"
	KeepFor        = 24 * time.Hour
	maxFormer      = 100
	maxFormerBytes = 256 << 20
)

// former are the logs of instances that have left this worker, which are still asked for. The
// directories are the only state.
type former struct {
	dir     string
	changed chan struct{} // holds one: there is one more

	mu sync.Mutex // one who changes the directory at a time
}

func newFormer(dir string) *former {
	return &former{dir: filepath.Join(dir, formerDir), changed: make(chan struct{}, 1)}
}

// of is where the log of an incarnation is kept.
func (k *former) of(id wire.InstanceID, incarnation int) string {
	return filepath.Join(k.dir, id+"@"+strconv.Itoa(incarnation))
}

// keep takes over the log of an incarnation that leaves, if there is anything in it.
func (k *former) keep(id wire.InstanceID, incarnation int, log string, now time.Time) error {
	n, err := logfile.End(log)
	if err != nil || n == 0 {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	to := k.of(id, incarnation)
	err = os.MkdirAll(k.dir, 0o700)
	if err == nil {
		err = os.RemoveAll(to) // of a cluster that was restored and counts again
	}
	if err == nil {
		err = os.Rename(log, to)
	}
	if err == nil { // nobody writes to it any more
		if e := os.Remove(logfile.Pipe(to)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = e
		}
	}
	if err == nil {
		err = os.Chtimes(to, now, now)
	}
	if err != nil {
		return fmt.Errorf("keep the log of %s: %w", id, err)
	}
	loop.Poke(k.changed)
	return nil
}

// formerLog is one of them, with its size on disk at most.
type formerLog struct {
	path string
	at   time.Time
	size int64
}

// excess returns the logs to remove: too old, too many or too large. next is when the oldest of
// the rest becomes too old, zero if nothing is left.
func excess(list []formerLog, now time.Time) (gone []formerLog, next time.Time) {
	slices.SortFunc(list, func(a, b formerLog) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.path, b.path)) })
	var size int64
	for i, l := range list {
		size += l.size
		// One from the future is of a clock that was set back.
		if age := now.Sub(l.at); age >= KeepFor || age < -KeepFor || i >= maxFormer || size > maxFormerBytes {
			return list[i:], next
		}
		next = l.at.Add(KeepFor)
	}
	return nil, next
}

// prune removes the excess, and says when there will be more.
func (k *former) prune(now time.Time) (next time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	entries, err := os.ReadDir(k.dir)
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("look for logs of instances that have left: %w", err)
	}
	var list []formerLog
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			continue // it has gone
		}
		l := formerLog{path: filepath.Join(k.dir, e.Name()), at: st.ModTime()}
		files, err := os.ReadDir(l.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return time.Time{}, fmt.Errorf("look for logs of instances that have left: %w", err)
		}
		for _, f := range files {
			if st, err := f.Info(); err == nil {
				l.size += min(st.Size(), logfile.MaxSize) // one with holes has less on disk
			}
		}
		list = append(list, l)
	}
	gone, next := excess(list, now)
	for _, l := range gone {
		if e := os.RemoveAll(l.path); e != nil {
			err = errors.Join(err, fmt.Errorf("remove a log of an instance that has left: %w", e))
		}
	}
	return next, err
}

// run removes logs when their time is over, until ctx is done. Without any it sleeps.
func (k *former) run(ctx context.Context, problem func(subject string, err error)) {
	for {
		next, err := k.prune(time.Now())
		problem("logs of instances that have left", err)
		var timer *time.Timer
		var due <-chan time.Time
		if !next.IsZero() {
			timer = time.NewTimer(max(time.Until(next), time.Second))
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-k.changed:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// previousRun is the part of a log from the run before the present one, or from the last run if
// none runs now.
func previousRun(id wire.InstanceID, dir string, running bool) (logfile.Range, error) {
	starts, err := logfile.Starts(dir)
	if err != nil {
		return logfile.Range{}, err
	}
	end, err := logfile.End(dir)
	if err != nil {
		return logfile.Range{}, err
	}
	if running && len(starts) > 0 {
		end = starts[len(starts)-1].Offset
		starts = starts[:len(starts)-1]
	}
	if len(starts) == 0 && (running || end == 0) {
		return logfile.Range{}, wire.Problemf(404, "no-previous-run", "verge logs "+strings.TrimSpace(id),
			"there is no previous run in this log", "%s has not ended on this worker since its log began", id)
	}
	r := logfile.Range{To: end}
	if len(starts) > 0 {
		r.From = starts[len(starts)-1].Offset
	}
	return r, nil
}
