package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	// The client of containerd itself: its protocol is gRPC with some hundred types.
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	containerdlog "github.com/containerd/log" // that of the client, to be silenced
	"golang.org/x/time/rate"
	"google.golang.org/grpc"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/container/registryhttp"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// Name of the driver in descriptors.
const Name = "container"

// DefaultAddress is where containerd listens.
const DefaultAddress = "/run/containerd/containerd.sock"

// Namespace of containerd in which everything of Verge is.
const Namespace = "verge"

// Labels of what is made in containerd.
const (
	LabelEngine   = "verge.engine"   // whose it is
	LabelInstance = "verge.instance" // of the instance
	labelCgroup   = "verge.cgroup"   // as in Handle.Cgroup
	labelExit     = "verge.exit"     // how it ended, as JSON
	// labelKeep keeps what nothing else refers to.
	labelKeep = "containerd.io/gc.root"
)

const (
	defaultPIDs = 4096
	// leftoverTimeout bounds the removal of what a task left behind.
	leftoverTimeout = 10 * time.Second
	// answerWithin is how long containerd may take to accept a connection, and to
	// say that it works.
	answerWithin = 3 * time.Second
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
	// Address of containerd's socket; "" is DefaultAddress.
	Address string
	// Pull is how images are fetched.
	Pull wire.PullConfig
	// Logger is told what goes wrong where no caller is to be told. nil means
	// nobody is.
	Logger *slog.Logger
}

// Driver runs tasks as containers.
type Driver struct {
	address string
	mark    string // LabelEngine of what is ours
	groups  *cgroup.Manager
	log     *slog.Logger
	logs    *logfile.Collector

	registrySettings
	timing
	copying copying

	ctx  context.Context // ends with Close; for goroutines of the driver alone
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex // guards below
	closed bool
	connection
	living   int                                    // tasks that have not ended
	known    map[string]bool                        // containers that are somebody's
	resolved map[string]*resolvedImage              // of images, by their full names
	debts    map[string]func(context.Context) error // that remove what could not be removed, by its name
	shims    map[string]*shim                       // by their names
	shared   sharedRoots
	pulls    map[string]*pullTurn // of images that are being fetched, by their full names
	// sweep is what could not be swept while containerd was away; nil is nothing.
	sweep    func(path string) bool
	guarding bool // guard runs
	orphans  int  // how often seekOrphans was called since nobody looked for them; 0: nobody does
	problem  func(error)
	changed  func()

	step func(name string) // is told of the steps of a start, in benchmarks

	poke chan struct{} // holds one: guard is to look again
}

// registrySettings is how pulls reach registries.
type registrySettings struct {
	mirrors map[string]string // of registries, by their hosts
	hosts   string            // folder in which the machine says how registries are reached
	pace    *rate.Limiter     // of all pulls together, in bytes; nil is none
	stall   time.Duration     // how long a registry may send nothing
}

// timing of the talk with containerd: the constants of these names, less in tests.
type timing struct {
	timeout                   time.Duration // how long containerd may take to answer
	debtAgain                 time.Duration
	healthEvery, healthWithin time.Duration
}

// connection to containerd, which is open while somebody uses it.
type connection struct {
	client   *containerd.Client // nil while nobody does
	users    int
	together bool // containerd has the mounts of this process; known of client
}

// New makes a driver. It asks containerd nothing.
func New(o Options) *Driver {
	d := &Driver{
		address: o.Address, mark: wire.Mark(o.Base)[:16], log: o.Logger,
		registrySettings: registrySettings{
			mirrors: o.Pull.Mirrors, hosts: cmp.Or(o.Pull.Hosts, defaultHosts),
			pace: registryhttp.NewPace(int64(o.Pull.Rate) / 8), stall: registryhttp.StallAfter,
		},
		timing: timing{timeout: wedgedAfter, debtAgain: debtAgain, healthEvery: healthEvery, healthWithin: healthWithin},
		known:  map[string]bool{}, debts: map[string]func(context.Context) error{}, resolved: map[string]*resolvedImage{},
		pulls: map[string]*pullTurn{}, shims: map[string]*shim{},
		problem: func(error) {}, changed: func() {}, step: func(string) {}, poke: make(chan struct{}, 1),
	}
	d.shared = sharedRoots{known: map[string][]mount.Mount{}, unfit: map[string]bool{}, turn: make(gate, 1)}
	d.copying.begin, d.copying.goOn, d.copying.again = beginWithin, goOnWithin, askAgain
	quiet()
	if d.address == "" {
		d.address = DefaultAddress
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.logs = logfile.NewCollector(d.log)
	// Another name than that of the process driver, which removes what it does not
	// know.
	d.groups = cgroup.DetectTop(o.Base + "#" + Name)
	d.ctx, d.stop = context.WithCancel(namespaces.WithNamespace(context.Background(), Namespace)) //nolint:gosec // Close ends it
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
	ctx, cancel := context.WithTimeout(d.ctx, answerWithin)
	defer cancel()
	c, release, err := d.use(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	if _, err := c.Version(ctx); err != nil {
		return "", d.away(err)
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

// dial looks whether anybody listens at containerd's socket.
func (d *Driver) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(d.address, "unix://"))
	if err != nil {
		return nil, d.away(err)
	}
	return conn, nil
}

// away says that containerd does not answer.
func (d *Driver) away(err error) error {
	return fmt.Errorf("containerd at %s: %w (%w); is it installed and running? systemctl status containerd", d.address,
		runtime.ErrAway, err)
}

// use returns a client of containerd for as long as it is not released. All who
// use one at a time share it, and none is kept.
func (d *Driver) use(ctx context.Context) (*containerd.Client, func(), error) {
	d.mu.Lock()
	if d.client != nil { // whose connection tells those who ask if nobody listens
		defer d.mu.Unlock()
		d.users++
		return d.client, d.release, nil
	}
	d.mu.Unlock()
	conn, err := d.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.Close() // it was only a knock
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		c, err := containerd.New(d.address, containerd.WithDefaultNamespace(Namespace), containerd.WithTimeout(answerWithin),
			containerd.WithExtraDialOpts([]grpc.DialOption{grpc.WithChainUnaryInterceptor(callTimeout(d.timeout))}))
		if err != nil {
			return nil, nil, d.away(err)
		}
		d.client = c
	}
	d.users++
	return d.client, d.release, nil
}

func (d *Driver) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users--
	if d.users == 0 {
		if err := d.client.Close(); err != nil {
			d.log.Debug("close the connection to containerd", "error", err)
		}
		d.client, d.together = nil, false
	}
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
	boot, err := bootID()
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
	t.proc, err = findProcess(h.PID, h.Started)
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
	case state == absent, state == running && errors.Is(err, errReused):
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
