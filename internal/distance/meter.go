package distance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// wantedFor is how long a service counts as used.
	wantedFor = time.Minute
	// measureWithin bounds one measurement.
	measureWithin = 5 * time.Second
	// saveEvery is the least time between two writes while measuring.
	saveEvery = 10 * time.Minute
	// maxServices that are looked after; more are not measured.
	maxServices = 4096
	maxFile     = 16 << 20
	// MaxHello bounds what two workers say to each other when they measure.
	MaxHello = 1 << 10
)

// Peer is another worker.
type Peer struct {
	Cluster, Worker string
	// Address of its data port, host:port.
	Address string
}

// Key names the worker.
func (p Peer) Key() string { return p.Cluster + "/" + p.Worker }

// Prober measures the path to a peer.
type Prober interface {
	// Measure sends hello, at most MaxHello bytes, and returns the round trip and what
	// the other side answered: nothing where it is too old to say where it is. It
	// returns when ctx ends, and may be called for several peers at a time.
	Measure(ctx context.Context, p Peer, hello []byte) (rtt time.Duration, answer []byte, err error)
}

// Options of a Meter.
type Options struct {
	Prober Prober
	// Path of the file that keeps what is known; "" keeps nothing.
	Path string
	// Seed is different for every worker.
	Seed uint64
	// Log is nil for none.
	Log *slog.Logger
}

// Meter measures. Its methods may be called from any goroutine.
type Meter struct {
	opts    Options
	news    chan struct{} // somebody wants something new
	version atomic.Uint64

	mu    sync.Mutex // guards below; nothing is called with it that blocks
	table *coord.Table
	wants map[string]*want // by service
	peers map[string]Peer  // by key: where those wanted are now
	round uint64           // of choices, so that each is another
	last  time.Time        // a measurement began
	saved time.Time
	dirty bool
}

// want is a service that is used.
type want struct {
	workers []string // keys
	until   time.Time
}

// New reads the file. One that is damaged is left where it is until the next write,
// one of a newer form for good; the meter begins anew.
func New(o Options) *Meter {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Meter{opts: o, news: make(chan struct{}, 1), table: coord.NewTable(o.Seed), wants: map[string]*want{}, peers: map[string]Peer{}}
	if o.Path == "" {
		return m
	}
	var f file
	_, err := kind.Read(o.Path, &f)
	if errors.Is(err, fs.ErrNotExist) {
		return m
	}
	if err != nil {
		o.Log.Warn("distances are measured anew", "file", o.Path, "why", err)
		return m
	}
	m.table = coord.RestoreTable(&f.Table, o.Seed)
	return m
}

var kind = &statefile.Kind{What: "distances", Max: maxFile, Version: 1}

type file struct {
	V int `json:"v"`
	coord.Table
}

// Want says that a service is used and at which workers it is. It returns at once.
func (m *Meter) Want(service string, peers []Peer) {
	now := time.Now()
	m.mu.Lock()
	w := m.wants[service]
	if w == nil && len(m.wants) >= maxServices {
		m.mu.Unlock()
		return
	}
	if w == nil {
		w = &want{}
		m.wants[service] = w
	}
	keys := make([]string, len(peers))
	for i, p := range peers {
		keys[i] = p.Key()
		m.peers[keys[i]] = p
	}
	slices.Sort(keys)
	// A service that was wanted already is looked after: nobody has to be woken.
	known := now.Before(w.until) && slices.Equal(w.workers, keys)
	w.workers, w.until = keys, now.Add(wantedFor)
	m.mu.Unlock()
	if !known {
		wake(m.news)
	}
}

// Placed takes where clusters say that the workers of endpoints are.
func (m *Meter) Placed(routes []wire.Route) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range routes {
		for _, e := range routes[i].Endpoints {
			if at, ok := coord.FromShort(e.At); ok {
				m.table.Placed(e.Cluster+"/"+e.Worker, at, now)
			}
		}
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting already
	}
}

// Distance to a worker as it is known now.
func (m *Meter) Distance(cluster, worker string) coord.Distance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.Distance(cluster+"/"+worker, time.Now())
}

// Version grows with every measurement.
func (m *Meter) Version() uint64 { return m.version.Load() }

// hello is what two workers say to each other.
type hello struct {
	V     int         `json:"v"`
	Point coord.Point `json:"point"`
}

// Hello is where this worker is, for whoever measures or is measured.
func (m *Meter) Hello() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := json.Marshal(hello{V: 1, Point: m.table.Own.Point})
	if err != nil || len(b) > MaxHello {
		return nil // a valid point always fits
	}
	return b
}

// Told takes what a worker that measures this one has said, and returns the answer.
func (m *Meter) Told(cluster, worker string, said []byte) []byte {
	if p := point(said); p != nil {
		m.mu.Lock()
		m.table.Told(cluster+"/"+worker, *p, time.Now())
		m.mu.Unlock()
	}
	return m.Hello()
}

func point(said []byte) *coord.Point {
	var h hello
	if len(said) > MaxHello || json.Unmarshal(said, &h) != nil || h.V < 1 || !h.Point.Valid() {
		return nil
	}
	return &h.Point
}

// Run measures until ctx ends, and writes the file then.
func (m *Meter) Run(ctx context.Context) {
	defer m.save(true)
	for {
		now := time.Now()
		peers, at := m.due(now)
		if len(peers) > 0 && !at.After(now) {
			m.measureAll(ctx, peers)
			m.save(false)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		var timer <-chan time.Time
		var t *time.Timer
		if len(peers) > 0 {
			t = time.NewTimer(at.Sub(now))
			timer = t.C
		}
		select {
		case <-ctx.Done():
		case <-m.news:
		case <-timer:
		}
		if t != nil {
			t.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// due is whom to measure next, and when; nobody where nothing is wanted.
func (m *Meter) due(now time.Time) ([]Peer, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.round++
	var services [][]string
	for name, w := range m.wants {
		if !now.Before(w.until) {
			delete(m.wants, name)
			continue
		}
		services = append(services, w.workers)
	}
	if len(services) == 0 {
		clear(m.peers) // what is wanted again says where it is
	}
	keys, at := m.table.Due(services, m.last, m.opts.Seed+m.round, now)
	peers := make([]Peer, len(keys))
	for i, key := range keys {
		peers[i] = m.peers[key]
	}
	return peers, at
}

// measureAll measures some at the same time.
func (m *Meter) measureAll(ctx context.Context, peers []Peer) {
	m.mu.Lock()
	m.last = time.Now()
	m.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range peers {
		all.Go(func() { m.measure(ctx, p) })
	}
	all.Wait()
}

// measure measures one.
func (m *Meter) measure(ctx context.Context, p Peer) {
	within, cancel := context.WithTimeout(ctx, measureWithin)
	defer cancel()
	rtt, answer, err := m.opts.Prober.Measure(within, p, m.Hello())
	if errors.Is(ctx.Err(), context.Canceled) {
		return // that says nothing about the peer
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.table.Failed(p.Key(), err.Error(), now)
	} else if err := m.table.Observe(p.Key(), rtt, point(answer), now); err != nil {
		m.opts.Log.Debug("a measurement is not taken", "peer", p.Key(), "why", err)
	}
	m.dirty = true
	m.version.Add(1)
}

// MeasureNow measures some peers because somebody asks, up to coord.AtOnce at the
// same time.
func (m *Meter) MeasureNow(ctx context.Context, peers []Peer) {
	for chunk := range slices.Chunk(peers, coord.AtOnce) {
		var all sync.WaitGroup
		for _, p := range chunk {
			all.Go(func() { m.measure(ctx, p) })
		}
		all.Wait()
	}
}

// Known is what is known of one peer.
type Known struct {
	coord.Distance
	// Estimate by coordinates alone, 0 where there is none.
	Estimate time.Duration
	// Failures in a row, and Why the last one.
	Failures int
	Why      string
}

// Known is what is known of a peer.
func (m *Meter) Known(cluster, worker string) Known {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := cluster + "/" + worker
	k := Known{Distance: m.table.Distance(key, time.Now()), Estimate: m.table.Estimate(key)}
	if p := m.table.Peers[key]; p != nil {
		k.Failures, k.Why = p.Failures, p.Why
	}
	return k
}

// Last is the last round trip to a peer, or why there is none.
func (m *Meter) Last(cluster, worker string) (rtt time.Duration, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.table.Peers[cluster+"/"+worker]
	switch {
	case p == nil:
		return 0, "it has not been measured"
	case p.Failures > 0 || len(p.Last) == 0:
		return 0, cmp.Or(p.Why, "it has not been measured")
	}
	return p.Last[len(p.Last)-1].RTT, ""
}

// Own is the own coordinate.
func (m *Meter) Own() wire.Coordinate {
	m.mu.Lock()
	defer m.mu.Unlock()
	return wire.Coordinate(m.table.Own.Point)
}

// Error of the own coordinate, relative: 1.5 where nothing is known.
func (m *Meter) Error() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.table.Own.Point.Error
}

// save writes the file if there is something new, at the end or when the last time
// is long ago.
func (m *Meter) save(last bool) {
	m.mu.Lock()
	now := time.Now()
	if m.saved.IsZero() {
		m.saved = now // not at the first measurement: there will be better ones
	}
	if m.opts.Path == "" || !m.dirty || !last && now.Sub(m.saved) < saveEvery {
		m.mu.Unlock()
		return
	}
	m.saved, m.dirty = now, false
	data, err := json.Marshal(file{V: kind.Version, Table: *m.table})
	m.mu.Unlock()
	if err == nil {
		err = kind.Put(m.opts.Path, data, atomicfile.Write)
	}
	if err != nil {
		m.opts.Log.Warn("distances are not kept", "file", m.opts.Path, "why", err)
	}
}
