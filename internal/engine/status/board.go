package status

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
)

// maxGone bounds how many forgotten instances a board remembers.
const maxGone = 4096

// Board is what the engine shows to others: the status of every instance, each
// change numbered. Readers ask for what changed after a number.
type Board struct {
	mu     sync.Mutex // guards all below
	run    string     // names this numbering
	seq    uint64
	have   wire.Rev
	info   engineapi.EngineInfo
	status map[wire.InstanceID]entry
	gone   []goneEntry
	// answers are the addresses that answered, of instances with several.
	answers map[wire.InstanceID]netip.Addr
	// floor: readers at or below this number get everything.
	floor   uint64
	changed chan struct{} // closed and replaced at every change
}

type entry struct {
	status wire.InstanceStatus
	seq    uint64
	off    *Unavailable // nil: a request may wait for it
}

type goneEntry struct {
	id  wire.InstanceID
	seq uint64
}

// NewBoard is a board without instances; its numbering has a name of its own.
func NewBoard(info engineapi.EngineInfo) *Board {
	return &Board{
		run: wire.NewID(), info: info,
		status:  make(map[wire.InstanceID]entry),
		answers: make(map[wire.InstanceID]netip.Addr),
		changed: make(chan struct{}),
	}
}

// bumpLocked numbers a change and wakes waiting readers.
func (b *Board) bumpLocked() uint64 {
	b.seq++
	close(b.changed)
	b.changed = make(chan struct{})
	return b.seq
}

// Put shows the status of an instance. off says why requests do not wait for it, nil if they may;
// only the router sees it. The same status again is no change.
func (b *Board) Put(s wire.InstanceStatus, off *Unavailable) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.V = wire.Version
	e, ok := b.status[s.ID]
	if !ok || !reflect.DeepEqual(e.status, s) {
		e.status, e.seq = clone(s), b.bumpLocked()
	}
	e.off = off
	b.status[s.ID] = e
}

// Awaited says that requests may wait for an instance again, since it is being started.
func (b *Board) Awaited(id wire.InstanceID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, ok := b.status[id]; ok {
		e.off = nil
		b.status[id] = e
	}
}

// Get returns the status of an instance.
func (b *Board) Get(id wire.InstanceID) (wire.InstanceStatus, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.status[id]
	return e.status, ok
}

// Unprobed reports whether an instance runs and its readiness is not known yet.
func (b *Board) Unprobed(id wire.InstanceID) bool {
	s, ok := b.Get(id)
	return ok && s.Phase == wire.PhaseRunning && !s.Ready && !s.Draining && !s.Asleep && s.Why == ""
}

// Runtimes of this engine.
func (b *Board) Runtimes() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.info.Runtimes
}

// Isolation says whether instances have users of their own; nil: not known yet.
func (b *Board) Isolation() *wire.Isolation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.info.Isolation
}

// Running returns the instances that have a task, and a channel that is closed
// at the next change of anything.
func (b *Board) Running() ([]wire.InstanceID, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var ids []wire.InstanceID
	for id, e := range b.status {
		if e.status.Phase == wire.PhaseRunning || e.status.PID != 0 {
			ids = append(ids, id)
		}
	}
	return ids, b.changed
}

// Target returns where a port of an instance listens, or why it gets no new requests.
func (b *Board) Target(id wire.InstanceID, port string) (string, error) {
	b.mu.Lock()
	e, ok := b.status[id]
	b.mu.Unlock()
	s := e.status
	switch {
	case !ok:
		return "", fmt.Errorf("%s: %w on this worker", id, proxy.ErrNoInstance)
	case e.off != nil:
		return "", e.off.error(time.Now())
	case s.Asleep:
		return "", fmt.Errorf("%s is %w: %s", id, proxy.ErrAsleep, s.Why)
	case s.Draining:
		return "", fmt.Errorf("%s is %w", id, proxy.ErrDraining)
	case s.Phase != wire.PhaseRunning:
		return "", fmt.Errorf("%s is %w: %s", id, proxy.ErrNotReady,
			strings.TrimSuffix(string(s.Phase)+": "+s.Why, ": "))
	case !s.Ready:
		return "", fmt.Errorf("%s is %w", id, proxy.ErrNotReady)
	}
	n, ok := s.Ports[port]
	if !ok {
		return "", fmt.Errorf("%s is %w: it has no port %q", id, proxy.ErrNotReady, port)
	}
	host := "127.0.0.1"
	if len(s.Addrs) > 0 {
		host = b.answering(s).String()
	}
	return net.JoinHostPort(host, strconv.Itoa(n)), nil
}

// AnswersAt notes which of its addresses an instance answered at.
func (b *Board) AnswersAt(id wire.InstanceID, a netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[id] = a
}

// answering is the address to use for an instance with addresses of its own.
func (b *Board) answering(s wire.InstanceStatus) netip.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.answers[s.ID]; slices.Contains(s.Addrs, a) {
		return a
	}
	return s.Addrs[0]
}

// Forget removes an instance and remembers that it is gone.
func (b *Board) Forget(id wire.InstanceID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.status, id)
	delete(b.answers, id)
	seq := b.bumpLocked()
	if len(b.gone) >= maxGone {
		// A reader that lags behind would miss which instances went. A new name for the numbering
		// makes readers ask for everything.
		b.run, b.gone, b.floor = wire.NewID(), nil, seq
		return
	}
	b.gone = append(b.gone, goneEntry{id: id, seq: seq})
}

// SetHave shows the revision of the stored orders.
func (b *Board) SetHave(r wire.Rev) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.have != r {
		b.have = r
		b.bumpLocked()
	}
}

// SetInfo changes what the engine says about itself.
func (b *Board) SetInfo(change func(*engineapi.EngineInfo)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.info)
	b.bumpLocked()
}

// SetAddrs shows where the router listens. The same again is no change.
func (b *Board) SetAddrs(data, gateway string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.info.DataAddr != data || b.info.GatewayAddr != gateway {
		b.info.DataAddr, b.info.GatewayAddr = data, gateway
		b.bumpLocked()
	}
}

// Since returns what changed after a number, and a channel that is closed at
// the next change. news is false if there is nothing to tell.
func (b *Board) Since(after uint64) (s engineapi.EngineState, news bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// A number from the future is another engine's.
	if after > b.seq || after < b.floor {
		after = 0
	}
	s = engineapi.EngineState{V: wire.Version, Engine: b.run, Seq: b.seq, Have: b.have, Info: b.info}
	s.Info.Runtimes = slices.Clone(b.info.Runtimes)
	s.Info.Missing = maps.Clone(b.info.Missing)
	s.Info.Problems = slices.Clone(b.info.Problems)
	for _, id := range slices.Sorted(maps.Keys(b.status)) {
		if e := b.status[id]; e.seq > after {
			s.Changed = append(s.Changed, clone(e.status))
		}
	}
	if after > 0 {
		for _, g := range b.gone {
			if _, back := b.status[g.id]; g.seq > after && !back {
				s.Gone = append(s.Gone, g.id)
			}
		}
	}
	return s, after == 0 || b.seq > after, b.changed
}

// clone copies a status so that a reader may keep it.
func clone(s wire.InstanceStatus) wire.InstanceStatus {
	s.Ports = maps.Clone(s.Ports)
	if s.LastExit != nil {
		e := *s.LastExit
		s.LastExit = &e
	}
	return s
}

// SetNetworkReason changes the reason that is shown for the network mode.
func (b *Board) SetNetworkReason(why string) {
	b.SetInfo(func(i *engineapi.EngineInfo) {
		if i.Network != nil && i.Network.Why != why {
			said := *i.Network
			said.Why = why
			i.Network = &said
		}
	})
}

// SetPublished shows what the gateway does. The same again is no change.
func (b *Board) SetPublished(info *wire.GatewayInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !reflect.DeepEqual(b.info.Published, info) {
		b.info.Published = info
		b.bumpLocked()
	}
}

// Published is the state of the gateway, nil without one.
func (b *Board) Published() *wire.GatewayInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.info.Published
}

// Counts sums up what the board shows.
func (b *Board) Counts() (phases map[string]int, ready, draining, restarts, problems int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	phases = map[string]int{string(wire.PhaseRunning): 0}
	for _, e := range b.status {
		phases[string(e.status.Phase)]++
		if e.status.Ready {
			ready++
		}
		if e.status.Draining {
			draining++
		}
		restarts += e.status.Restarts
	}
	return phases, ready, draining, restarts, len(b.info.Problems)
}

// Unavailable says why requests do not wait for an instance that they would start.
type Unavailable struct {
	Why  string
	Due  time.Time // when it is tried again, monotonic; zero where nobody knows
	Full bool      // there is no room
}

func (p *Unavailable) error(now time.Time) *proxy.StartError {
	e := &proxy.StartError{Why: p.Why, Full: p.Full}
	if !p.Due.IsZero() {
		e.Again = max(p.Due.Sub(now), time.Millisecond)
	}
	return e
}
