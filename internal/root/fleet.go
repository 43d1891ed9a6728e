package root

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// statusPatience is how long a status waits for what clusters know of their
// workers; one that does not answer by then is shown as it was.
const statusPatience = 500 * time.Millisecond

// fleet remembers what clusters answered last about their workers.
type fleet struct {
	mu   sync.Mutex
	last map[string]answered // by cluster
}

type answered struct {
	list []wire.WorkerView
	at   time.Time
}

func (f *fleet) keep(cluster string, list []wire.WorkerView, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]answered{}
	}
	f.last[cluster] = answered{list, now}
}

// old are the workers of a cluster as it told of them last, with their age since.
func (f *fleet) old(cluster string, now time.Time) (list []wire.WorkerView, age time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last, ok := f.last[cluster]
	age = now.Sub(last.at)
	for _, w := range last.list {
		if w.AgeSeconds >= 0 {
			w.AgeSeconds += age.Seconds()
		}
		list = append(list, w)
	}
	return list, age, ok
}

// workers of the clusters that let them be seen to who asks, all asked at once and
// waited for no longer than patience. missing says whose could not be had, and
// whose are shown as they were.
func (c *core) workers(ctx context.Context, patience time.Duration) (out []wire.WorkerView, missing []string) {
	out = []wire.WorkerView{}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var asked []string
	for _, cl := range seen(ctx, c.clusters()) {
		if cl.Connected && cl.Aggregate != nil && cl.Aggregate.Details {
			asked = append(asked, cl.Name)
		}
	}
	lists, errs := make([][]wire.WorkerView, len(asked)), make([]error, len(asked))
	var wg sync.WaitGroup
	for n, name := range asked {
		wg.Go(func() { errs[n] = c.ask(ctx, name, wire.Ask{What: "workers"}, &lists[n]) })
	}
	wg.Wait()
	now := time.Now()
	for n, name := range asked {
		if errs[n] == nil {
			c.fleet.keep(name, lists[n], now)
			out = append(out, lists[n]...)
			continue
		}
		list, age, ok := c.fleet.old(name, now)
		if !ok {
			missing = append(missing, fmt.Sprintf("the workers of cluster %s cannot be shown: %v", name, errs[n]))
			continue
		}
		out = append(out, list...)
		missing = append(missing, fmt.Sprintf("cluster %s does not answer: its workers are shown as they were %s ago", name, age.Round(time.Second)))
	}
	return out, missing
}
