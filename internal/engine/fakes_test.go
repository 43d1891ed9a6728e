package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/enginetest"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// fakeDriver keeps tasks like a machine does: they go on when an engine ends.
type fakeDriver struct {
	boot string

	mu    sync.Mutex
	fail  error         // what Start says
	adopt error         // what Adopt says of a task that is there
	start time.Duration // how long Start takes
	// expected are the instances of which a start is expected.
	expected map[wire.InstanceID]bool
	lag      time.Duration // of Adopt
	pid      int
	specs    []runtime.Spec
	tasks    map[int]*fakeTask
	sweeps   int
	swept    []string
}

func newFakeDriver() *fakeDriver {
	return &fakeDriver{boot: "boot-1", tasks: make(map[int]*fakeTask)}
}

func (d *fakeDriver) Name() string           { return "process" }
func (d *fakeDriver) Probe() (string, error) { return "", nil }

// Expect implements runtime.Expecter.
func (d *fakeDriver) Expect(id wire.InstanceID, expected bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.expected == nil {
		d.expected = map[wire.InstanceID]bool{}
	}
	d.expected[id] = expected
}

// expects says whether a start of an instance is expected.
func (d *fakeDriver) expects(id wire.InstanceID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.expected[id]
}

func (d *fakeDriver) Start(_ context.Context, s runtime.Spec) (runtime.Task, error) {
	d.mu.Lock()
	takes := d.start
	d.mu.Unlock()
	if takes > 0 {
		time.Sleep(takes)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.specs = append(d.specs, s)
	if d.fail != nil {
		return nil, d.fail
	}
	d.pid++
	t := &fakeTask{spec: s, handle: runtime.Handle{PID: d.pid, Started: uint64(d.pid), Boot: d.boot,
		Cgroup: fmt.Sprintf("/cg/%d", d.pid)}, ended: make(chan struct{})}
	d.tasks[d.pid] = t
	return t, nil
}

// slow makes Adopt take a while.
func (d *fakeDriver) slow(lag time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lag = lag
}

func (d *fakeDriver) Adopt(_ context.Context, _ runtime.Spec, h runtime.Handle) (runtime.Task, error) {
	d.mu.Lock()
	lag := d.lag
	d.mu.Unlock()
	<-time.After(lag)
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.tasks[h.PID]
	if t == nil || h.Boot != d.boot || t.over() {
		return nil, runtime.ErrGone
	}
	if d.adopt != nil {
		return nil, d.adopt
	}
	return t, nil
}

// Sweep removes the groups that are not kept.
func (d *fakeDriver) Sweep(_ context.Context, keep func(string) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweeps++
	for pid := range d.tasks {
		if path := fmt.Sprintf("/cg/%d", pid); !keep(path) {
			d.swept = append(d.swept, path)
		}
	}
	return nil
}

func (d *fakeDriver) sweptGroups() (sweeps int, paths []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sweeps, slices.Clone(d.swept)
}

// live returns the tasks of an instance that have not ended.
func (d *fakeDriver) live(id string) (live []*fakeTask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.tasks {
		if t.spec.ID == id && !t.over() {
			live = append(live, t)
		}
	}
	return live
}

// starts counts the attempts at an instance.
func (d *fakeDriver) starts(id string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.specs {
		if s.ID == id {
			n++
		}
	}
	return n
}

func (d *fakeDriver) last() runtime.Spec {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.specs[len(d.specs)-1]
}

func (d *fakeDriver) setFail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

type fakeTask struct {
	spec   runtime.Spec
	handle runtime.Handle
	ended  chan struct{}

	mu      sync.Mutex
	done    bool
	stay    bool // ignores signals
	exit    wire.Exit
	signals []string
	killed  bool
	cleaned int
	execs   []runtime.Exec
	beside  func(runtime.Exec) (wire.Exit, error) // what Exec says; nil is success
}

func (t *fakeTask) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done
}

// end makes the task end.
func (t *fakeTask) end(code int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return
	}
	t.done, t.exit = true, wire.Exit{Code: code, At: time.Now()}
	close(t.ended)
}

func (t *fakeTask) ignoreSignals() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stay = true
}

func (t *fakeTask) Handle() runtime.Handle { return t.handle }
func (t *fakeTask) Usage() runtime.Usage   { return runtime.Usage{} }

func (t *fakeTask) Wait(ctx context.Context) (wire.Exit, error) {
	select {
	case <-t.ended:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.exit, nil
	case <-ctx.Done():
		return wire.Exit{}, ctx.Err()
	}
}

func (t *fakeTask) Signal(name string) error {
	t.mu.Lock()
	t.signals = append(t.signals, name)
	stay := t.stay
	t.mu.Unlock()
	if !stay {
		t.end(143)
	}
	return nil
}

func (t *fakeTask) Exec(_ context.Context, e runtime.Exec) (wire.Exit, error) {
	t.mu.Lock()
	t.execs = append(t.execs, e)
	beside := t.beside
	t.mu.Unlock()
	if beside == nil {
		return wire.Exit{}, nil
	}
	return beside(e)
}

func (t *fakeTask) Kill(context.Context) error {
	t.mu.Lock()
	t.killed = true
	t.mu.Unlock()
	t.end(137)
	return nil
}

func (t *fakeTask) Cleanup() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleaned++
	return nil
}

func (t *fakeTask) seen() (signals []string, killed bool, cleaned int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.signals), t.killed, t.cleaned
}

// fakeRouter is idle unless busy says otherwise.
func (*fakeRouter) Route(string) (rpc.RouteReport, bool) { return rpc.RouteReport{}, false }

func (*fakeRouter) Workers(string) []proxy.Worker { return nil }

func (*fakeRouter) Serve(net.Listener, string, string, string) {}

type fakeRouter struct {
	mu      sync.Mutex
	fail    int // that many openings fail
	routes  []wire.Route
	changes int
	busy    map[string]chan struct{}
	opened  bool   // the data port is
	gateway string // where it listens
	lastUse map[string]time.Time
	demand  []wire.ServiceDemand
	answers []wire.InstanceAnswers
	asked   chan struct{}
	sent    map[string]int
}

func (r *fakeRouter) Start(context.Context) error { return nil }
func (r *fakeRouter) Close()                      {}
func (r *fakeRouter) Drain(context.Context) error { return nil }
func (r *fakeRouter) Connections() int            { return 0 }

func (r *fakeRouter) Open(context.Context) []*proxy.PortError {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = true
	if r.fail > 0 {
		r.fail--
		return []*proxy.PortError{{Port: proxy.GatewayPort, Addr: "127.0.0.1:1", Err: syscall.EADDRINUSE}}
	}
	r.gateway = "127.0.0.1:1"
	return nil
}

// given are the routes that it has.
func (r *fakeRouter) given() []wire.Route {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routes
}

func (r *fakeRouter) LastUse(key string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lastUse[key]
}

func (r *fakeRouter) Asked() <-chan struct{} { return r.asked }

func (r *fakeRouter) Demand() []wire.ServiceDemand {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.demand
	r.demand = nil
	return d
}

func (r *fakeRouter) Answers() []wire.InstanceAnswers {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.answers
	r.answers = nil
	return a
}

func (r *fakeRouter) LastRequest(id wire.InstanceID) time.Time { return r.LastUse(id) }

func (r *fakeRouter) Entries() []proxy.Entry {
	return []proxy.Entry{{App: "shop", Service: "web", Port: "http", Addr: "127.0.0.1:20001"},
		{App: "shop", Service: "db", Port: "tcp", Addr: "127.0.0.1:20002", Problem: "taken"}}
}

func (r *fakeRouter) PeersChanged() {}

// Ask answers at once, with what is in the path: /404 is not found.
func (r *fakeRouter) Ask(id string, port string, req *http.Request) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sent == nil {
		r.sent = map[string]int{}
	}
	r.sent[req.Method+" "+id+" "+port+" "+req.URL.RequestURI()]++
	if status, err := strconv.Atoi(req.URL.Path[1:]); err == nil {
		return status, nil
	}
	return http.StatusOK, nil
}

func (r *fakeRouter) Places(string) int { return 3 }

func (r *fakeRouter) Stats() proxy.Stats { return proxy.Stats{} }

func (r *fakeRouter) SetRoutes(routes []wire.Route) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routes = routes
}

func (r *fakeRouter) Reserve(app, service string, ports []api.Port) (map[string]string, error) {
	out := make(map[string]string)
	for i, p := range ports {
		out[p.Name] = fmt.Sprintf("127.0.0.1:%d", 20000+len(app+service)+i)
	}
	return out, nil
}

func (r *fakeRouter) LocalChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
}

func (r *fakeRouter) WaitIdle(ctx context.Context, id string) error {
	r.mu.Lock()
	busy := r.busy[id]
	r.mu.Unlock()
	if busy == nil {
		return nil
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (r *fakeRouter) DataAddr() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.opened {
		return ""
	}
	return "127.0.0.1:8474"
}

func (r *fakeRouter) GatewayTLSAddr() string { return "" }

func (r *fakeRouter) Gateway() proxy.GatewayState { return proxy.GatewayState{} }

func (r *fakeRouter) SecretsChanged() {}

func (r *fakeRouter) GatewayAddr() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gateway
}

func (r *fakeRouter) seen() (changes, routes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes, len(r.routes)
}

func (r *fakeRouter) setBusy(id string) (idle func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := make(chan struct{})
	r.busy = map[string]chan struct{}{id: c}
	return func() { close(c) }
}

// fakeProber answers all probes alike, but for the kinds in of.
type fakeProber struct {
	mu     sync.Mutex
	err    error
	of     map[health.Kind]error
	probes int
	kinds  map[health.Kind]int
}

func (p *fakeProber) Probe(_ context.Context, c health.Check) error {
	p.mu.Lock()
	p.probes++
	if p.kinds == nil {
		p.kinds = map[health.Kind]int{}
	}
	p.kinds[c.Kind]++
	err, ok := p.of[c.Kind]
	if !ok {
		err = p.err
	}
	p.mu.Unlock()
	return err
}

func (p *fakeProber) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// setOf sets the answer to probes of one kind.
func (p *fakeProber) setOf(k health.Kind, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[health.Kind]error{}
	}
	p.of[k] = err
}

func (p *fakeProber) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.probes
}

func (p *fakeProber) countOf(k health.Kind) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kinds[k]
}

// fakeOrphans are processes that no file names.
type fakeOrphans struct {
	mu     sync.Mutex
	marked map[string][]int
	swept  []string
}

func (s *fakeOrphans) Find(bool) (map[string][]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marked, nil
}

func (s *fakeOrphans) End(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept = append(s.swept, id)
	return nil
}

func (s *fakeOrphans) EndExec(context.Context, string) error { return nil }

func (s *fakeOrphans) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.swept)
}

func (s *fakeOrphans) was(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.swept, id)
}

// rig is an engine among fakes, in a synctest bubble.
type rig struct {
	t       *testing.T
	dir     string
	driver  *fakeDriver
	more    map[string]runtime.Driver // besides
	router  *fakeRouter
	prober  *fakeProber
	orphans *fakeOrphans
	boot    string
	born    time.Time // of the machine
	config  engineapi.EngineConfig
	// volumes is where moved volumes are put; nil is a cluster that is not there.
	volumes volumes.ObjectStore
	network network.Overlay // nil: none

	e    *Engine
	stop func() // ends the engine, as a kill does
}

func newRig(t *testing.T) *rig {
	dir := t.TempDir()
	t.Cleanup(func() { unmountAll(t, dir) }) // what an engine leaves when it is killed
	return &rig{
		t: t, dir: dir, driver: newFakeDriver(), router: &fakeRouter{asked: make(chan struct{}, 1)},
		prober:  &fakeProber{},
		orphans: &fakeOrphans{}, boot: "boot-1", born: time.Now().Add(-time.Hour),
		config: newConfig(),
	}
}

func newConfig() engineapi.EngineConfig {
	return engineapi.EngineConfig{
		V: wire.Version, Worker: "w1", Cluster: "edge", Path: "/bin:/usr/bin",
		Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 10 << 30},
	}
}

func (r *rig) drivers() map[string]runtime.Driver {
	all := map[string]runtime.Driver{"process": r.driver}
	maps.Copy(all, r.more)
	return all
}

// start starts an engine in the rig's directory.
func (r *rig) open() (*Engine, error) {
	return New(Options{
		Dir: r.dir, Config: r.config, Drivers: r.drivers(),
		replaced: replacements{router: r.router, orphans: r.orphans, prober: r.prober, boot: r.boot,
			uptime: func() time.Duration { return time.Since(r.born) }, free: func(int) bool { return true },
			noObjects: true, volumes: r.volumes, network: r.network},
	})
}

func (r *rig) start() {
	r.t.Helper()
	e, err := r.open()
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	r.e = e
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	synctest.Wait()
}

// apply gives orders and waits until all is done that needs no time.
func (r *rig) apply(orders ...wire.Order) {
	r.t.Helper()
	if err := r.e.Apply(context.Background(), engineapi.EngineOrders{V: wire.Version, Orders: orders}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// status of an instance; the zero one if there is none.
func (r *rig) status(id string) wire.InstanceStatus {
	r.t.Helper()
	s, err := r.e.State(context.Background(), 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range s.Changed {
		if c.ID == id {
			return c
		}
	}
	return wire.InstanceStatus{}
}

func (r *rig) problems() string {
	r.t.Helper()
	s, err := r.e.State(context.Background(), 0, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.Join(s.Info.Problems, "\n")
}

// one returns the only live task of an instance.
func (r *rig) one(id string) *fakeTask {
	r.t.Helper()
	live := r.driver.live(id)
	if len(live) != 1 {
		r.t.Fatalf("%s has %d live tasks, want 1", id, len(live))
	}
	return live[0]
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
}

// order is enginetest.Order.
func order(ordinal, incarnation int, cpu api.CPU) wire.Order {
	return enginetest.Order(ordinal, incarnation, cpu)
}

func fakeDrivers() map[string]runtime.Driver {
	return map[string]runtime.Driver{"process": newFakeDriver()}
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
