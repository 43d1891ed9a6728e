package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/stats"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engine/supervise"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/engine/uses"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/handover"
	"github.com/verge-edge/verge/internal/orders"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Options of an Engine.
type Options struct {
	// Dir is the worker's data directory; it exists. One engine works in it.
	Dir    string
	Config engineapi.EngineConfig
	// Drivers by the name of their runtime.
	Drivers map[string]runtime.Driver
	Log     *slog.Logger
	// Version of the program, for people.
	Version string
	// Hide are directories that instances do not see besides Dir.
	Hide []string
	// Listen serves the agent on the unix socket in Dir. False where the agent
	// calls the methods itself.
	Listen bool
	// Public is proxy.Options.Public; nil: the gateway listens in the engine's own network
	// namespace.
	Public func(open func() error) error
	// Apart: the engine is in another network namespace than the machine's resolvers, which
	// it does not reach at loopback addresses.
	Apart bool
	// Sockets that the engine listens at, and may have from the one before.
	Sockets *handover.Sockets
	// Inherited is what the one before gave; nil: there was none.
	Inherited *handover.Inheritance
	// Release gives the drivers back before a successor takes over what runs; nil is
	// nothing to give.
	Release func()
	// Args start a successor.
	Args []string

	replaced replacements
}

// Engine runs the instances of a worker.
type Engine struct {
	opts  Options
	log   *slog.Logger
	board *status.Board

	loaded chan struct{} // closed when the files are read: Apply may work
	ended  chan struct{} // closed when Run is over or about to be
	halted chan struct{} // closed when Shutdown has stopped everything
	force  chan struct{} // closed when the time of Shutdown is over

	haltOnce, forceOnce sync.Once

	upgrades chan *upgrade // taken by Run

	applying gate // one Apply or Change at a time; taken before mu
	// stored and told, its content, are touched with applying held, and before loaded is closed.
	// told.V is 0 as long as nothing is known.
	stored *orders.Store
	told   engineapi.EngineOrders

	deps *deps

	uses    *uses.Uses // its mutex is taken after mu
	meter   *stats.Meter
	revoked pki.Revoked // keys of peers that do not count any more

	mu        sync.Mutex // guards below; taken before those of an instance and of the board
	orders    []wire.Order
	known     bool // orders were read from disk or sent
	halting   bool
	spawn     func(func(context.Context)) // starts a goroutine of this Run; nil when it is over
	instances map[wire.InstanceID]*supervise.Instance
	// marked instances have processes that an earlier engine started.
	marked map[wire.InstanceID]bool
	// orphans left traces but no readable record. Nothing is done about them until
	// orders are known.
	orphans []wire.InstanceID
	alive   sync.WaitGroup // of supervisors
}

// New makes an engine; Run makes it work.
func New(opts Options) (*Engine, error) {
	dir, err := filepath.Abs(opts.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory of the engine: %w", err)
	}
	opts.Dir = dir
	if err := wire.CheckVersion("engine configuration", opts.Config.V); err != nil {
		return nil, err
	}
	if opts.Config.Worker == "" || opts.Config.Cluster == "" {
		return nil, errors.New("engine configuration: worker and cluster must be named")
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Sockets == nil {
		opts.Sockets = &handover.Sockets{}
	}
	info, err := probeDrivers(opts.Drivers)
	if err != nil {
		return nil, err
	}
	info.Version = opts.Version
	b := status.NewBoard(info)
	e := &Engine{
		uses: uses.New(func(u *wire.Uses) { b.SetInfo(func(i *engineapi.EngineInfo) { i.Uses = u }) }),
		opts: opts, log: opts.Log, board: b,
		loaded: make(chan struct{}), ended: make(chan struct{}),
		halted: make(chan struct{}), force: make(chan struct{}),
		upgrades: make(chan *upgrade), applying: make(gate, 1),

		stored:    orders.At(opts.Dir),
		instances: make(map[wire.InstanceID]*supervise.Instance),
	}
	e.meter = stats.NewMeter(e.tasks, e.ended)
	for _, d := range opts.Drivers {
		if m, ok := d.(runtime.Modular); ok {
			m.Objects(e.OpenObject)
		}
	}
	return e, nil
}

// Apply stores orders and acts on them. When it returns nil they are on disk.
func (e *Engine) Apply(ctx context.Context, o engineapi.EngineOrders) error {
	if err := e.wait(ctx); err != nil {
		return err
	}
	if err := state.CheckOrders(&o); err != nil {
		return fmt.Errorf("%w: %w", state.ErrBadOrders, err)
	}
	if err := e.enterApplying(); err != nil {
		return err
	}
	defer e.applying.Unlock()
	err := e.stored.Write(&o)
	e.deps.problems.Set(state.FileSubject(e.stored.Path()), err)
	if err != nil {
		return fmt.Errorf("store orders: %w", err)
	}
	e.told = o
	o.Orders = slices.Clone(o.Orders) // their peers are filled in
	state.FillPeers(&o)
	e.revoke(o.Revoked)
	o.Routes = e.deps.local.Set(&e.told)
	placed := e.setNetwork(&o)
	e.uses.Set(e.told.Routes)
	unlocked := e.deps.vault.Set(o.Secrets)
	if unlocked {
		e.deps.router.SecretsChanged()
	}
	e.mu.Lock()
	e.orders, e.known = o.Orders, true
	e.mu.Unlock()
	e.board.SetHave(o.Have)
	e.replan()
	if unlocked || placed {
		e.wakeAll() // those that wait for a secret or an address
	}
	return nil
}

// Change stores changes of the routes and acts on them, as Apply does. It refuses
// those of another revision than the one that is there.
func (e *Engine) Change(ctx context.Context, c engineapi.EngineChanges) error {
	if err := e.wait(ctx); err != nil {
		return err
	}
	if err := wire.CheckVersion("changes of the orders", c.V); err != nil {
		return fmt.Errorf("%w: %w", state.ErrBadOrders, err)
	}
	if err := e.enterApplying(); err != nil {
		return err
	}
	defer e.applying.Unlock()
	if e.told.V == 0 || e.told.Have != c.From {
		return wire.Problemf(409, "other-revision", "send all orders", "the changes do not continue the orders",
			"they are of revision %s, the orders of %s", c.From, e.told.Have)
	}
	next := e.told.With(&c)
	err := e.stored.Change(&c, &next)
	e.deps.problems.Set(state.FileSubject(e.stored.Path()), err)
	if err != nil {
		return fmt.Errorf("store orders: %w", err)
	}
	e.told = next
	next.Routes = e.deps.local.Set(&e.told)
	placed := e.setNetwork(&next)
	e.uses.Set(e.told.Routes)
	e.board.SetHave(next.Have)
	if placed { // what kept it from its place before is gone
		e.wakeAll()
	}
	return nil
}

// enterApplying takes the lock of what is applied, unless a successor has taken over.
func (e *Engine) enterApplying() error {
	e.applying.Lock()
	select {
	case <-e.ended:
		e.applying.Unlock()
		return state.ErrStopped
	default:
		return nil
	}
}

// revoke refuses peers with revoked keys, and cuts their open connections.
func (e *Engine) revoke(entries []string) {
	e.revoked.Set(entries)
	e.deps.router.PeersChanged()
	if len(entries) == 0 {
		return
	}
	if n := e.deps.network.Overlay(); n != nil {
		n.PeersChanged()
	}
	e.deps.relay.PeersChanged()
}

// wakeAll lets every supervisor look again.
func (e *Engine) wakeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, in := range e.instances {
		in.Poke()
	}
}

// State says what changed after a number that an earlier State returned, or
// everything after 0. If nothing did it waits for a change, at most for wait.
func (e *Engine) State(ctx context.Context, after uint64, wait time.Duration) (engineapi.EngineState, error) {
	if err := e.wait(ctx); err != nil {
		return engineapi.EngineState{}, err
	}
	timer := time.NewTimer(min(max(wait, 0), state.MaxWait))
	defer timer.Stop()
	for {
		s, news, changed := e.board.Since(after)
		if news {
			return s, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return s, nil
		case <-ctx.Done():
			return engineapi.EngineState{}, ctx.Err()
		case <-e.ended:
			return engineapi.EngineState{}, state.ErrStopped
		}
	}
}

// Logs reads what an instance has written, see logs.Store.Read.
func (e *Engine) Logs(ctx context.Context, id wire.InstanceID, q rpc.LogAsk) (rpc.LogChunk, error) {
	if err := e.wait(ctx); err != nil {
		return rpc.LogChunk{}, err
	}
	return e.deps.logs.Read(ctx, id, q)
}

// Entries are the addresses at which services are reached on this worker, ordered
// by application, service and port.
func (e *Engine) Entries(ctx context.Context) ([]rpc.EntryView, error) {
	if err := e.wait(ctx); err != nil {
		return nil, err
	}
	entries := e.deps.router.Entries()
	out := make([]rpc.EntryView, 0, len(entries)) // an empty list is no null
	for _, x := range entries {
		out = append(out, rpc.EntryView{App: x.App, Service: x.Service, Port: x.Port, Addr: x.Addr, Problem: x.Problem})
	}
	if n := e.deps.network.Overlay(); n != nil {
		for _, x := range n.Entries() {
			out = append(out, rpc.EntryView{App: x.App, Service: x.Service, Port: x.Port, Addr: x.Addr})
		}
		slices.SortFunc(out, func(a, b rpc.EntryView) int {
			return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Port, b.Port),
				cmp.Compare(a.Addr, b.Addr))
		})
	}
	return out, nil
}

// wait waits until the engine knows what it has.
func (e *Engine) wait(ctx context.Context) error {
	select {
	case <-e.ended:
		return state.ErrStopped
	default:
	}
	select {
	case <-e.loaded:
		return nil
	case <-e.ended:
		return state.ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shutdown stops every instance by its stop rule and then ends Run. Orders stay
// stored: the next engine in the same directory starts them again. When ctx is
// done before that, what is left is killed.
func (e *Engine) Shutdown(ctx context.Context) error {
	if err := e.wait(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	e.halting = true
	e.mu.Unlock()
	e.replan()
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.alive.Wait()
	}()
	defer e.haltOnce.Do(func() { close(e.halted) })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	e.forceOnce.Do(func() { close(e.force) })
	last := time.NewTimer(supervise.KillWithin + time.Second)
	defer last.Stop()
	select {
	case <-done:
		return nil
	case <-last.C:
		return errors.New("stop instances: some could not be killed; see the worker's log")
	}
}

// BeginShutdown starts Shutdown in the background.
func (e *Engine) BeginShutdown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spawn == nil {
		return
	}
	e.spawn(func(ctx context.Context) {
		if err := e.Shutdown(ctx); err != nil && !errors.Is(err, state.ErrStopped) {
			e.log.Error("shutdown", "error", err)
		}
	})
}

// replan gives every instance its goal and makes those that are new.
func (e *Engine) replan() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.spawn == nil {
		return
	}
	if e.known && !e.halting && e.orphans != nil {
		for _, id := range e.orphans {
			if e.instances[id] == nil {
				e.addLocked(id, state.Record{}, true)
			}
		}
		e.orphans = nil
	}
	w := plan.World{
		Orders: e.orders, Known: e.known, Halting: e.halting,
		Capacity: e.deps.capacity(), Devices: e.deps.devices(), Runtimes: e.board.Runtimes(),
		Refuses: func(s *api.Service) string {
			return cmp.Or(users.Refuses(s, e.opts.Config.HostUsers, e.board.Isolation()),
				volumes.Refuses(s, e.opts.Config.HostPaths, e.deps.supervise.CannotMount))
		},
		Overlay: e.deps.network.Wanted(),
		Present: make(map[wire.InstanceID]plan.Present, len(e.instances)),
	}
	for i := range e.orders {
		if in := e.instances[e.orders[i].ID]; in != nil {
			in.WakeIfOrdered(&e.orders[i])
		}
	}
	for id, in := range e.instances {
		w.Present[id] = in.Present()
	}
	e.uses.SetApps(e.appsLocked())
	for id, g := range plan.Goals(w) {
		in := e.instances[id]
		if in == nil {
			in = e.addLocked(id, state.Record{}, e.marked[id])
			in.SetAwake(state.BeginsAwake(&g.Order))
		}
		in.SetGoal(g)
	}
}

// addLocked adds an instance and starts its supervisor, which waits for its goal
// if it has none yet.
func (e *Engine) addLocked(id wire.InstanceID, rec state.Record, marked bool) *supervise.Instance {
	in := supervise.New(e.deps.supervise, id, rec, marked)
	delete(e.marked, id)
	e.instances[id] = in
	e.alive.Add(1)
	e.spawn(func(ctx context.Context) {
		defer e.alive.Done()
		in.Run(ctx)
	})
	return in
}

// OpenObject finds an object of a namespace, see objects.Cache.Open.
func (e *Engine) OpenObject(ctx context.Context, name string) (path string, release func(), err error) {
	return e.deps.objects.Open(ctx, name)
}

// orderedImages are the images of the orders, by full name as their descriptors have them;
// false where the orders are not known.
func (e *Engine) orderedImages() (map[string]string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	images := map[string]string{}
	for i := range e.orders {
		if s := e.orders[i].Spec; s != nil && s.Image != "" {
			if full, err := imagestore.FullName(s.Image); err == nil {
				images[full] = s.Image
			}
		}
	}
	return images, e.known
}

// forgotten removes an instance whose traces are gone, unless it has been
// ordered again.
func (e *Engine) forgotten(in *supervise.Instance) bool {
	e.mu.Lock()
	if in.Goal().Kind != plan.Forget {
		e.mu.Unlock()
		return false
	}
	delete(e.instances, in.ID)
	e.board.Forget(in.ID)
	e.deps.logs.Forget(in.ID)
	e.mu.Unlock()
	e.replan()
	return true
}

// Target implements proxy.Local.
func (e *Engine) Target(id wire.InstanceID, port string) (string, error) {
	return e.board.Target(id, port)
}

// Wake implements proxy.Local: it starts an instance that sleeps, if there is room.
func (e *Engine) Wake(id wire.InstanceID) {
	e.mu.Lock()
	in := e.instances[id]
	e.mu.Unlock()
	if in != nil && in.SetAwake(true) {
		e.replan()
	}
}
