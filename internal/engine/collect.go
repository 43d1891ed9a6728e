package engine

import (
	"context"
	"errors"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container"
	"github.com/verge-edge/verge/internal/wire"
)

// Pace of looking whether images are to be removed. Nothing is written where none are.
const (
	collectFirst = 10 * time.Minute
	collectEvery = time.Hour
)

// collector is a driver that removes images.
type collector interface {
	Collect(ctx context.Context, needed map[string]bool, age time.Duration, high int) ([]container.Gone, error)
}

// collectImages removes images that nothing needs, now and then, until ctx is done.
func (e *Engine) collectImages(ctx context.Context) {
	p := e.opts.Config.Pull
	if p.KeepUnused == 0 && p.DiskHigh == 0 {
		return
	}
	t := time.NewTimer(collectFirst)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			e.collect(ctx, p.KeepUnused.Std(), p.DiskHigh)
			t.Reset(collectEvery)
		}
	}
}

// makeRoom removes images that nothing needs for one that does not fit. It reports
// whether any went.
func (e *Engine) makeRoom(ctx context.Context) bool {
	p := e.opts.Config.Pull
	// What has failed to fit has gone again: less than usual is let to be used.
	return p.DiskHigh > 0 && e.collect(ctx, p.KeepUnused.Std(), (p.DiskHigh+1)/2)
}

func (e *Engine) collect(ctx context.Context, age time.Duration, high int) (some bool) {
	e.mu.Lock()
	needed, known := map[string]bool{}, e.known
	for i := range e.orders {
		if s := e.orders[i].Spec; s != nil && s.Image != "" {
			if full, err := container.FullName(s.Image); err == nil {
				needed[full] = true
			}
		}
	}
	e.mu.Unlock()
	if !known {
		return false // nobody knows what is needed
	}
	for name, d := range e.opts.Drivers {
		c, ok := d.(collector)
		if !ok {
			continue
		}
		gone, err := c.Collect(ctx, needed, age, high)
		if err != nil && !errors.Is(err, runtime.ErrAway) && ctx.Err() == nil {
			e.log.Warn("images are not removed", "runtime", name, "error", err)
		}
		some = some || len(gone) > 0
		e.tellGone(ctx, gone)
	}
	return some
}

// tellGone tells the cluster what went, for its events. While it is away only the log of
// the engine has it.
func (e *Engine) tellGone(ctx context.Context, gone []container.Gone) {
	var out []wire.ImageGone
	for _, g := range gone {
		out = append(out, wire.ImageGone{Image: g.Name, Size: g.Size, Why: g.Why})
	}
	if len(out) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askClusterWithin)
	defer cancel()
	if err := e.kit.stock.above.ImagesGone(ctx, out[:min(len(out), maxGoneTold)]); err != nil {
		e.log.Debug("the cluster is not told which images were removed", "error", err)
	}
}

// maxGoneTold are told at a time; the log has all.
const maxGoneTold = 16
