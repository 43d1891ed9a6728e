package container

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	containerdlog "github.com/containerd/log" // that of the client, to be silenced

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/runtime/container/pidfd"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// Name of the driver in descriptors.
const Name = "container"

// Labels of what is made in containerd.
const (
	labelCgroup = "verge.cgroup" // as in Handle.Cgroup
	labelExit   = "verge.exit"   // how it ended, as JSON
	// labelKeep keeps what nothing else refers to.
	labelKeep = "containerd.io/gc.root"
)

const (
	defaultPIDs = 4096
	// leftoverTimeout bounds the removal of what a task left behind.
	leftoverTimeout = 10 * time.Second
)

var errClosed = errors.New("the container driver is closed; the task goes on")

var (
	_ runtime.Driver   = (*Driver)(nil)
	_ runtime.Imager   = (*Driver)(nil)
	_ runtime.Reporter = (*Driver)(nil)
	_ runtime.Task     = (*task)(nil)
)

// Options of a Driver.
type Options struct {
	// Base tells what several engines on one machine have made apart; the engine's
	// data directory.
	Base string
	// Address of containerd's socket; "" is ctrd.DefaultAddress.
	Address string
	// Pull is how images are fetched.
	Pull engineapi.PullConfig
	// Logger is told what goes wrong where no caller is to be told. nil means
	// nobody is.
	Logger *slog.Logger
}

// Driver runs tasks as containers.
type Driver struct {
	conn   *ctrd.Connection
	mark   string // LabelEngine of what is ours
	groups *cgroup.Manager
	log    *slog.Logger
	logs   *logfile.Collector

	*imagestore.Store
	timing

	ctx  context.Context // ends with Close; for goroutines of the driver alone
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex // guards below
	closed bool
	living int                                    // tasks that have not ended
	known  map[string]bool                        // containers that are somebody's
	debts  map[string]func(context.Context) error // that remove what could not be removed, by its name
	shims  map[string]*shim                       // by their names
	shared sharedRoots
	// sweep is what could not be swept while containerd was away; nil is nothing.
	sweep    func(path string) bool
	guarding bool // guard runs
	orphans  int  // how often seekOrphans was called since nobody looked for them; 0: nobody does
	problem  func(error)
	changed  func()

	step func(name string) // is told of the steps of a start, in benchmarks

	poke chan struct{} // holds one: guard is to look again
}

// timing of the talk with containerd: the constants of these names, less in tests.
type timing struct {
	debtAgain                 time.Duration
	healthEvery, healthWithin time.Duration
}

// New makes a driver. It asks containerd nothing.
func New(o Options) *Driver {
	if o.Address == "" {
		o.Address = ctrd.DefaultAddress
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	conn, mark := ctrd.New(o.Address, 0, o.Logger), wire.Mark(o.Base)[:16]
	d := &Driver{
		conn: conn, mark: mark, log: o.Logger, Store: imagestore.New(conn, mark, o.Pull, o.Logger),
		timing: timing{debtAgain: debtAgain, healthEvery: healthEvery, healthWithin: healthWithin},
		known:  map[string]bool{}, debts: map[string]func(context.Context) error{}, shims: map[string]*shim{},
		problem: func(error) {}, changed: func() {}, step: func(string) {}, poke: make(chan struct{}, 1),
	}
	d.shared = sharedRoots{known: map[string][]mount.Mount{}, unfit: map[string]bool{}, turn: make(gate, 1)}
	quiet()
	d.logs = logfile.NewCollector(d.log)
	// Another name than that of the process driver, which removes what it does not
	// know.
	d.groups = cgroup.DetectTop(o.Base + "#" + Name)
	d.ctx, d.stop = context.WithCancel(namespaces.WithNamespace(context.Background(), ctrd.Namespace)) //nolint:gosec // Close ends it
	return d
}

// quiet silences containerd's client: it writes lines of its own to stderr, some of them
// as errors that are none. What fails it returns, too.
var quiet = sync.OnceFunc(func() { _ = containerdlog.SetLevel(containerdlog.PanicLevel) }) // a level that there is

// Name is "container".
func (d *Driver) Name() string { return Name }

// Probe says whether containerd answers here, and which limits cannot be enforced.
func (d *Driver) Probe() (missing string, err error) {
	if os.Geteuid() != 0 {
		return "", errors.New("containers need a worker that runs as root")
	}
	if _, err := runc(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(d.ctx, ctrd.AnswerWithin)
	defer cancel()
	c, release, err := d.conn.Use(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if _, err := c.Version(ctx); err != nil {
		return "", d.conn.Away(err)
	}
	return d.groups.Missing(), nil
}

// runc is the path of the program that containers are started by.
func runc() (string, error) {
	if path, err := exec.LookPath("runc"); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/sbin"} {
		if path, err := exec.LookPath(dir + "/runc"); err == nil {
			return path, nil
		}
	}
	return "", errors.New("runc is not installed: install the package runc, which containerd needs too")
}

// Enforces says whether a limit is enforced: of "cpu", "memory" or "pids".
func (d *Driver) Enforces(limit string) bool { return d.groups.Has(limit) }

// LogProblem says why what the task of a LogDir writes is not kept, nil if it is.
func (d *Driver) LogProblem(logDir string) error { return d.logs.Problem(logDir) }

// Close stops watching tasks, which go on.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.stop()
	d.wg.Wait()
	d.logs.Close()
	d.groups.Close()
	return nil
}

// enter announces a task, so that Close waits for the goroutine that watches it.
func (d *Driver) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errors.New("the container driver is closed")
	}
	d.wg.Add(1)
	d.living++
	return nil
}

func (d *Driver) leave() {
	d.mu.Lock()
	d.living--
	d.mu.Unlock()
	d.wg.Done()
}

// watch starts the announced goroutine that waits for the task's end.
func (d *Driver) watch(t *task) {
	go func() {
		defer d.leave()
		t.watch(d.ctx)
	}()
	d.attend()
}

// Adopt implements runtime.Driver. It works while containerd is away, for a
// container that runs.
func (d *Driver) Adopt(ctx context.Context, s runtime.Spec, h runtime.Handle) (runtime.Task, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	t, err := d.adopt(ctx, s, h)
	if err != nil {
		d.leave()
		return nil, err
	}
	d.watch(t)
	return t, nil
}

func (d *Driver) adopt(ctx context.Context, s runtime.Spec, h runtime.Handle) (_ *task, err error) {
	boot, err := pidfd.BootID()
	if err != nil {
		return nil, err
	}
	if h.Container == "" || h.PID <= 0 || h.Boot != boot {
		if h.Container != "" && !d.knows(h.Container) {
			d.owe(h.Container) // after a restart of the machine
		}
		return nil, runtime.ErrGone
	}
	var group *cgroup.Group
	if h.Cgroup != "" {
		if group, err = d.groups.Load(h.Cgroup); err != nil && !errors.Is(err, cgroup.ErrUnavailable) {
			return nil, fmt.Errorf("adopt %s: %w", s.ID, err)
		}
	}
	// One that an older version started writes to the file of its log itself.
	if err := d.logs.Collect(s.LogDir); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("the output of an instance is not read", "instance", s.ID, "error", err)
	}
	t := newTask(d, s, h, nil, group)
	d.know(h.Container)
	d.joined(s.ID, h.Shim)
	defer func() {
		if err != nil {
			d.part(h.Shim)
		}
	}()
	t.proc, err = pidfd.Find(h.PID, h.Started)
	switch {
	case err == nil:
		t.sweepExecs(ctx)
		return t, nil
	case !errors.Is(err, runtime.ErrGone):
		return nil, fmt.Errorf("adopt %s: %w", s.ID, err)
	}
	// It has ended; how, is known to containerd.
	state, aerr := d.ask(ctx, h.Container)
	switch {
	case aerr != nil:
		return nil, fmt.Errorf("adopt %s: %w", s.ID, aerr)
	case state == absent, state == running && errors.Is(err, pidfd.ErrReused):
		if group != nil && state == absent {
			gctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
			defer cancel()
			if err := group.Remove(gctx); err != nil {
				d.log.Warn("processes of an ended instance are left", "instance", s.ID, "error", err)
			}
		}
		d.forget(h.Container)
		return nil, runtime.ErrGone
	}
	return t, nil
}

// know says that a container is somebody's, until forget.
func (d *Driver) know(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[id] = true
}

func (d *Driver) knows(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known[id]
}

func (d *Driver) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, id)
}
