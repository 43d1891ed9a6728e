package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/logfile"
)

// Name of the driver in descriptors.
const Name = "process"

// defaultPIDs is generous for any service and stops a fork bomb before the
// machine's own limit (32768 on small boards).
const defaultPIDs = 4096

// leftoverTimeout bounds the killing of what a task left behind. A process that
// SIGKILL does not end in this time waits for broken hardware or a dead NFS.
const leftoverTimeout = 10 * time.Second

// errClosed is what Wait returns after Driver.Close.
var errClosed = errors.New("the process driver is closed; the task goes on")

var (
	_ runtime.Driver = (*Driver)(nil)
	_ runtime.Task   = (*task)(nil)
)

// Options of a Driver.
type Options struct {
	// Base tells the control groups of several engines on one machine apart; the
	// engine's data directory.
	Base string
	// MaxPIDs bounds the processes and threads of a task. 0 means 4096.
	MaxPIDs int64
	// NoCgroups runs tasks without control groups even where there are some.
	NoCgroups bool
	// Logger is told what goes wrong where no caller is to be told. nil means
	// nobody is.
	Logger *slog.Logger

	// groups replaces what is detected, in tests.
	groups *cgroup.Manager
}

// Driver runs tasks as processes.
type Driver struct {
	base    string // as in Options
	groups  *cgroup.Manager
	maxPIDs int64
	log     *slog.Logger

	logs     *logfile.Collector
	spares   *spares
	watchers sync.WaitGroup // one per task that has not ended

	mu     sync.Mutex
	closed bool
	tasks  map[*task]struct{} // not ended; guarded by mu
}

// New makes a driver and looks for control groups. It marks every descriptor
// that this process has, but for the standard ones, close-on-exec: what the
// engine inherited would otherwise be kept open by instances that outlive it.
func New(o Options) *Driver {
	d := &Driver{base: o.Base, maxPIDs: o.MaxPIDs, log: o.Logger, tasks: map[*task]struct{}{}}
	if d.maxPIDs <= 0 {
		d.maxPIDs = defaultPIDs
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	closeOnExec()
	d.logs, d.spares = logfile.NewCollector(d.log), newSpares(d.log)
	switch {
	case o.groups != nil:
		d.groups = o.groups
	case o.NoCgroups:
		d.groups = cgroup.Disabled(o.Base)
	default:
		d.groups = cgroup.Detect(o.Base)
	}
	return d
}

// Name is "process".
func (d *Driver) Name() string { return Name }

// Probe says which limits cannot be enforced here. It never fails.
func (d *Driver) Probe() (missing string, err error) { return d.groups.Missing(), nil }

// Enforces says whether a limit is enforced: of "cpu", "memory" or "pids".
func (d *Driver) Enforces(limit string) bool { return d.groups.Has(limit) }

// LogProblem says why what the task of a LogDir writes is not kept, nil if it is.
func (d *Driver) LogProblem(logDir string) error { return d.logs.Problem(logDir) }

// Close stops watching tasks, which go on, and removes the parents of control
// groups if no group is left. Wait of a task that has not ended returns an
// error from now on.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	for t := range d.tasks {
		t.proc.stop()
	}
	d.mu.Unlock()
	d.watchers.Wait()
	d.spares.close()
	d.logs.Close()
	d.groups.Close()
	return nil
}

// Sweep kills and removes the control groups of this engine whose path (as in
// Handle.Cgroup) is not to be kept: of tasks that a crashed engine had started
// but not yet written down.
func (d *Driver) Sweep(ctx context.Context, keep func(path string) bool) error {
	groups, err := d.groups.Groups()
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range groups {
		if !keep(g.Path()) {
			errs = append(errs, g.Remove(ctx))
		}
	}
	return errors.Join(errs...)
}

// Start implements runtime.Driver.
func (d *Driver) Start(ctx context.Context, s runtime.Spec) (runtime.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	t, err := d.start(ctx, s)
	if err != nil {
		d.watchers.Done()
		return nil, err
	}
	d.watch(t)
	return t, nil
}

func (d *Driver) start(ctx context.Context, s runtime.Spec) (*task, error) {
	if err := checkDir(s.Dir); err != nil {
		return nil, err
	}
	path, err := resolve(s)
	if err != nil {
		return nil, err
	}
	if s.User != nil {
		path, s.View = visible(path, s.User, s.View)
	}
	out, err := logfile.OpenPipe(s.LogDir)
	if err != nil {
		return nil, fmt.Errorf("cannot write the log of %s: %w", s.ID, err)
	}
	defer out.Close() //nolint:errcheck // the child has its own; nothing was written through it
	if err := d.logs.Collect(s.LogDir); err != nil {
		return nil, fmt.Errorf("cannot keep the log of %s: %w", s.ID, err)
	}

	group, err := d.groups.Create(fmt.Sprintf("%s-%d", s.ID, s.Attempt), cgroup.Limits{
		CPUWeight: s.CPUWeight, CPULimit: s.CPULimit, Memory: s.MemoryLimit, PIDs: d.maxPIDs,
	})
	if err != nil && !errors.Is(err, cgroup.ErrUnavailable) {
		return nil, fmt.Errorf("cannot limit %s: %w", s.ID, err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, errors.Join(err, removeGroup(group))
	}
	defer null.Close() //nolint:errcheck // nothing is written to it
	// Read before it runs: a program can use up its memory before we look again.
	oomBefore := group.OOMKills()
	proc, err := spawn(ctx, path, s, stdio{in: null, out: out, err: out}, group, nil, d.spares)
	if err != nil {
		return nil, errors.Join(err, removeGroup(group))
	}
	h := runtime.Handle{PID: proc.pid, Started: proc.started, Boot: proc.boot, User: s.User}
	if group != nil {
		h.Cgroup = group.Path()
	}
	return d.newTask(s, h, proc, group, oomBefore), nil
}

// Adopt implements runtime.Driver. Of a task that is gone it kills what is left
// of its tree, as far as that can be told for certain.
func (d *Driver) Adopt(ctx context.Context, s runtime.Spec, h runtime.Handle) (runtime.Task, error) {
	if err := d.enter(); err != nil {
		return nil, err
	}
	t, err := d.adopt(ctx, s, h)
	if err != nil {
		d.watchers.Done()
		return nil, err
	}
	d.watch(t)
	return t, nil
}

func (d *Driver) adopt(ctx context.Context, s runtime.Spec, h runtime.Handle) (*task, error) {
	var group *cgroup.Group
	if h.Cgroup != "" {
		var err error
		group, err = d.groups.Load(h.Cgroup)
		if err != nil && !errors.Is(err, cgroup.ErrUnavailable) {
			return nil, fmt.Errorf("adopt %s: %w", s.ID, err)
		}
	}
	proc, err := find(h)
	if errors.Is(err, runtime.ErrGone) {
		if e := bury(ctx, s, h, group); e != nil {
			d.log.Warn("processes of an ended instance are left", "instance", s.ID, "error", e)
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("adopt %s: %w", s.ID, err)
	}
	// One that an older version started writes to the file of its log itself.
	if err := d.logs.Collect(s.LogDir); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("the output of an instance is not read", "instance", s.ID, "error", err)
	}
	t := d.newTask(s, h, proc, group, group.OOMKills())
	t.sweepExecs(ctx, d.log)
	return t, nil
}

// bury removes what a task that is gone has left behind. After a reboot there
// is nothing, and the handle's numbers mean other things.
func bury(ctx context.Context, s runtime.Spec, h runtime.Handle, group *cgroup.Group) error {
	boot, err := bootID()
	if err != nil || boot != h.Boot {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
	defer cancel()
	if group != nil {
		return group.Remove(ctx)
	}
	return killOrphans(ctx, h, s.LogDir)
}

// removeGroup removes the group of a task that did not start, if it has one.
func removeGroup(g *cgroup.Group) error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leftoverTimeout)
	defer cancel()
	return g.Remove(ctx)
}

// enter announces a watcher, so that Close waits for it.
func (d *Driver) enter() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errors.New("the process driver is closed")
	}
	d.watchers.Add(1)
	return nil
}

// watch starts the announced goroutine that waits for the task's end.
func (d *Driver) watch(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tasks[t] = struct{}{}
	if d.closed { // meanwhile
		t.proc.stop()
	}
	go func() {
		defer d.watchers.Done()
		t.watch()
		d.mu.Lock()
		delete(d.tasks, t)
		d.mu.Unlock()
	}()
}

// checkDir says in words what is wrong with a working directory.
func checkDir(dir string) error {
	st, err := os.Stat(dir)
	switch {
	case dir == "":
		return errors.New("no working directory given")
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the working directory %s does not exist", dir)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("no permission to enter the working directory %s", dir)
	case err != nil:
		return fmt.Errorf("the working directory cannot be used: %w", err)
	case !st.IsDir():
		return fmt.Errorf("the working directory %s is not a directory", dir)
	}
	return nil
}

// closeOnExec marks all descriptors but the standard ones.
func closeOnExec() {
	names, err := os.ReadDir("/dev/fd") // of Linux and darwin alike
	if err != nil {
		return // not mounted: nothing to go by, and not worth failing for
	}
	for _, n := range names {
		if fd, err := strconv.Atoi(n.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
