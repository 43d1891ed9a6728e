package stats

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Span between two samples of what instances use. Samples are made on request: a first one waits
// for topSpan; another request within topKept measures since the last one.
const (
	topSpan  = 500 * time.Millisecond
	topKept  = 30 * time.Second
	topFresh = 200 * time.Millisecond // what is younger is answered again
)

// Meter measures what instances use.
type Meter struct {
	tasks func() map[wire.InstanceID]runtime.Task
	ended <-chan struct{}
	busy  chan struct{} // holds one while somebody measures

	mu   sync.Mutex // guards below
	last sample
	said rpc.WorkerTop
}

// NewMeter measures the tasks that tasks returns; ended releases waiting callers.
func NewMeter(tasks func() map[wire.InstanceID]runtime.Task, ended <-chan struct{}) *Meter {
	return &Meter{tasks: tasks, ended: ended, busy: make(chan struct{}, 1)}
}

// sample is what tasks had used at a moment.
type sample struct {
	at  time.Time
	use map[runtime.Handle]used
}

type used struct {
	id wire.InstanceID
	runtime.Usage
}

// Measure measures what every instance that runs uses.
func (m *Meter) Measure(ctx context.Context) (rpc.WorkerTop, error) {
	select {
	case m.busy <- struct{}{}:
		defer func() { <-m.busy }()
	case <-ctx.Done():
		return rpc.WorkerTop{}, ctx.Err()
	}
	m.mu.Lock()
	before, said := m.last, m.said
	m.mu.Unlock()
	switch age := time.Since(before.at); {
	case said.V != 0 && age < topFresh:
		return said, nil
	case before.use == nil || age > topKept || age < topFresh:
		before = m.sample()
		t := time.NewTimer(topSpan)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return rpc.WorkerTop{}, ctx.Err()
		case <-m.ended:
			return rpc.WorkerTop{}, state.ErrStopped
		}
	}
	now := m.sample()
	top := between(before, now)
	m.mu.Lock()
	m.last, m.said = now, top
	m.mu.Unlock()
	return top, nil
}

// sample asks every task.
func (m *Meter) sample() sample {
	tasks := m.tasks()
	s := sample{at: time.Now(), use: make(map[runtime.Handle]used, len(tasks))}
	for id, task := range tasks {
		s.use[task.Handle()] = used{id, task.Usage()}
	}
	return s
}

// between is what was used between two samples. What was not there at the first
// has used what it has since.
func between(before, now sample) rpc.WorkerTop {
	span := now.at.Sub(before.at)
	top := rpc.WorkerTop{V: wire.Version, SpanMs: span.Milliseconds()}
	for h, u := range now.use {
		spent := u.CPU - before.use[h].CPU
		use := rpc.Use{Memory: api.Bytes(max(u.Memory, 0)), Tasks: max(u.Tasks, 0)}
		if span > 0 && spent > 0 {
			use.CPU = api.CPU((1000*spent + span/2) / span)
		}
		top.Instances = append(top.Instances, rpc.InstanceUse{ID: u.id, Use: use})
	}
	slices.SortFunc(top.Instances, func(a, b rpc.InstanceUse) int { return cmp.Compare(a.ID, b.ID) })
	return top
}
