package hollow

import (
	"cmp"
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// runtimes that a hollow worker says it has: what runs none can pass for all.
var runtimes = []string{"process", api.Container, api.Wasm}

// Engine is the engine of one hollow worker, in the process of its agent. It is safe
// for concurrent use.
type Engine struct {
	version  string
	cluster  string
	worker   string
	run      string // names this run
	capacity api.Resources

	mu    sync.Mutex
	have  wire.Rev
	tasks map[wire.InstanceID]*task
	gone  map[wire.InstanceID]uint64 // by when; until whoever asks has heard of it
	seq   uint64
	news  chan struct{} // closed at the next change
}

// task is what an instance has become here.
type task struct {
	status wire.InstanceStatus
	seq    uint64 // of its last change
	takes  api.Resources
}

// New makes the engine of a worker; version is of this build.
func New(cfg engineapi.EngineConfig, version string) *Engine {
	return &Engine{
		version: version, cluster: cfg.Cluster, worker: cfg.Worker, run: wire.NewID(), capacity: cfg.Capacity, seq: 1,
		tasks: map[wire.InstanceID]*task{}, gone: map[wire.InstanceID]uint64{}, news: make(chan struct{}),
	}
}

// Apply implements engineclient.Client. Nothing is stored.
func (h *Engine) Apply(_ context.Context, o engineapi.EngineOrders) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.have = o.Have
	ordered := make(map[wire.InstanceID]bool, len(o.Orders))
	for i := range o.Orders {
		ordered[o.Orders[i].ID] = true
	}
	changed := false
	for id := range h.tasks {
		if !ordered[id] {
			delete(h.tasks, id)
			h.seq++
			h.gone[id], changed = h.seq, true
		}
	}
	// What stops first makes room for what starts.
	for _, stops := range [...]bool{true, false} {
		for i := range o.Orders {
			if o.Orders[i].Stop == stops {
				changed = h.follow(&o.Orders[i]) || changed
			}
		}
	}
	if changed {
		h.ring()
	}
	return nil
}

// follow brings one instance in line with its order, and says whether that changed it.
func (h *Engine) follow(o *wire.Order) bool {
	t := h.tasks[o.ID]
	same := t != nil && t.status.Incarnation == o.Incarnation
	next := task{status: wire.InstanceStatus{V: wire.Version, ID: o.ID, Incarnation: o.Incarnation,
		Revision: o.Revision}}
	if same {
		next = *t
		next.status.Revision = o.Revision
	}
	asleep := o.Sleep != nil && !o.Sleep.Awake
	switch {
	case o.Stop:
		next.status.Phase, next.status.Ready, next.status.Asleep, next.takes = wire.PhaseStopped, false, false,
			api.Resources{}
	case same && (next.status.Phase == wire.PhaseRefused || next.status.Phase == wire.PhaseStopped):
		// It stays so until it is given anew.
	case asleep:
		next.status.Phase, next.status.Ready, next.status.Asleep, next.takes = wire.PhasePending, false, true,
			api.Resources{}
	case !same || next.status.Asleep:
		h.start(&next, o)
	}
	if t != nil && t.status.Phase == next.status.Phase && t.status.Incarnation == next.status.Incarnation &&
		t.status.Revision == next.status.Revision && t.status.Asleep == next.status.Asleep {
		return false
	}
	h.seq++
	next.seq = h.seq
	h.tasks[o.ID] = &next
	delete(h.gone, o.ID)
	return true
}

// start runs an instance if there is room for it.
func (h *Engine) start(t *task, o *wire.Order) {
	if o.Spec != nil {
		t.takes = o.Spec.Resources
	}
	if why := h.lacks(o.ID, t.takes); why != "" {
		t.status.Phase, t.status.Why, t.takes = wire.PhaseRefused, why, api.Resources{}
		return
	}
	t.status.Phase, t.status.Ready, t.status.Asleep, t.status.Started = wire.PhaseRunning, true, false,
		time.Now().Round(0)
}

// lacks says of what there is too little here for an instance beside all others.
func (h *Engine) lacks(id wire.InstanceID, r api.Resources) string {
	free := h.capacity
	for other, t := range h.tasks {
		if other != id {
			free = amount.Sub(free, t.takes)
		}
	}
	if ok, lacking := amount.Fits(free, r); !ok {
		return "not enough room: " + lacking
	}
	return ""
}

// ring tells those who wait. The mutex is held.
func (h *Engine) ring() {
	close(h.news)
	h.news = make(chan struct{})
}

// Change implements engineclient.Client: of routes nothing is kept.
func (h *Engine) Change(_ context.Context, c engineapi.EngineChanges) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.have = c.To
	return nil
}

// State implements engineclient.Client.
func (h *Engine) State(ctx context.Context, after uint64, wait time.Duration) (engineapi.EngineState, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		s, news := h.state(after)
		if s.Seq > after || wait == 0 {
			return s, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return s, nil
		}
	}
}

func (h *Engine) state(after uint64) (engineapi.EngineState, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := engineapi.EngineState{
		V: wire.Version, Engine: h.run, Seq: h.seq, Have: h.have,
		// Without services that it uses it needs no endpoints.
		Info: engineapi.EngineInfo{
			Version: h.version, PID: os.Getpid(), Runtimes: runtimes, Uses: &wire.Uses{},
			Network: &wire.NetworkInfo{Mode: wire.NetworkLoopback},
		},
	}
	if h.seq == after {
		return s, h.news
	}
	for _, t := range h.tasks {
		if t.seq > after {
			s.Changed = append(s.Changed, t.status)
		}
	}
	slices.SortFunc(s.Changed, func(a, b wire.InstanceStatus) int { return cmp.Compare(a.ID, b.ID) })
	for id, seq := range h.gone {
		if seq <= after {
			delete(h.gone, id) // whoever asks has it: there is one
		} else {
			s.Gone = append(s.Gone, id)
		}
	}
	slices.Sort(s.Gone)
	return s, h.news
}

// nothing is the answer where there is nothing to look at.
func nothing(what string) error {
	return wire.Problemf(501, "hollow", "ask a worker that runs something",
		"the worker is hollow: nothing really runs there", "it has no %s", what)
}

// Logs implements engineclient.Client.
func (h *Engine) Logs(context.Context, string, rpc.LogAsk) (rpc.LogChunk, error) {
	return rpc.LogChunk{}, nothing("logs")
}

// Entries implements engineclient.Client: there are none.
func (h *Engine) Entries(context.Context) ([]rpc.EntryView, error) { return []rpc.EntryView{}, nil }

// Metrics implements engineclient.Client: there are none.
func (h *Engine) Metrics(context.Context) ([]byte, error) { return nil, nil }

// Top implements engineclient.Client.
func (h *Engine) Top(context.Context) (rpc.WorkerTop, error) {
	return rpc.WorkerTop{}, nothing("processes to measure")
}

// Route implements engineclient.Client.
func (h *Engine) Route(context.Context, string) (rpc.RouteReport, error) {
	return rpc.RouteReport{}, nothing("router")
}

// Net implements engineclient.Client.
func (h *Engine) Net(context.Context) (rpc.NetReport, error) {
	return rpc.NetReport{}, nothing("network")
}

// Volumes implements engineclient.Client: there are none.
func (h *Engine) Volumes(context.Context) ([]rpc.VolumeView, error) {
	return []rpc.VolumeView{}, nil
}

// RemoveVolume implements engineclient.Client.
func (h *Engine) RemoveVolume(context.Context, wire.VolumeRef) error { return nothing("volumes") }

// Demand implements engineclient.Client: nobody asks for anything here.
func (h *Engine) Demand(ctx context.Context, wait time.Duration) (wire.Demand, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return wire.Demand{}, nil
	case <-ctx.Done():
		return wire.Demand{}, ctx.Err()
	}
}

// Exec implements engineclient.Client.
func (h *Engine) Exec(context.Context, rpc.ExecAsk) (rpc.ExecAnswer, error) {
	return rpc.ExecAnswer{}, nothing("programs")
}
