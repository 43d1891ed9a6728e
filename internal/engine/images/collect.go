package images

import (
	"context"
	"errors"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Pace of looking for images to remove.
const (
	collectFirst = 10 * time.Minute
	collectEvery = time.Hour
)

// collector is a driver that removes images.
type collector interface {
	Collect(ctx context.Context, needed map[string]bool, age time.Duration, high int) ([]imagestore.Gone, error)
}

// Run removes images that nothing needs, now and then, until ctx is done.
func (m *Manager) Run(ctx context.Context) {
	p := m.o.Pull
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
			m.collect(ctx, p.KeepUnused.Std(), p.DiskHigh)
			t.Reset(collectEvery)
		}
	}
}

// MakeRoom removes images that nothing needs for one that does not fit. It reports
// whether any went.
func (m *Manager) MakeRoom(ctx context.Context) bool {
	p := m.o.Pull
	// What has failed to fit has gone again: less than usual is let to be used.
	return p.DiskHigh > 0 && m.collect(ctx, p.KeepUnused.Std(), (p.DiskHigh+1)/2)
}

func (m *Manager) collect(ctx context.Context, age time.Duration, high int) (some bool) {
	ordered, known := m.o.Ordered()
	if !known {
		return false // nobody knows what is needed
	}
	needed := make(map[string]bool, len(ordered))
	for full := range ordered {
		needed[full] = true
	}
	for name, d := range m.o.Drivers {
		c, ok := d.(collector)
		if !ok {
			continue
		}
		gone, err := c.Collect(ctx, needed, age, high)
		if err != nil && !errors.Is(err, runtime.ErrAway) && ctx.Err() == nil {
			m.o.Log.Warn("images are not removed", "runtime", name, "error", err)
		}
		some = some || len(gone) > 0
		m.tellGone(ctx, gone)
	}
	return some
}

// tellGone reports removed images to the cluster, for its events. While the cluster is away only
// the log of the engine has them.
func (m *Manager) tellGone(ctx context.Context, gone []imagestore.Gone) {
	var out []rpc.ImageGone
	for _, g := range gone {
		out = append(out, rpc.ImageGone{Image: g.Name, Size: g.Size, Why: g.Why})
	}
	if len(out) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	if err := m.o.Above.ImagesGone(ctx, out[:min(len(out), maxGoneTold)]); err != nil {
		m.o.Log.Debug("the cluster is not told which images were removed", "error", err)
	}
}

// maxGoneTold are reported at a time; the log has all.
const maxGoneTold = 16
