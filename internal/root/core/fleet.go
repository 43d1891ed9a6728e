package core

import (
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// StatusTimeout is how long a status waits for what clusters know of their
// workers; one that does not answer by then is shown as it was.
const StatusTimeout = 500 * time.Millisecond

// fleet remembers what clusters answered last about their workers.
type fleet struct {
	mu   sync.Mutex
	last map[string]answered // by cluster
}

type answered struct {
	list []rpc.WorkerView
	at   time.Time
}

func (f *fleet) Keep(cluster string, list []rpc.WorkerView, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last == nil {
		f.last = map[string]answered{}
	}
	f.last[cluster] = answered{list, now}
}

// Old are the workers of a cluster as it told of them last, with their age since.
func (f *fleet) Old(cluster string, now time.Time) (list []rpc.WorkerView, age time.Duration, ok bool) {
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
