package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/wasm/modulestore"
	"github.com/verge-edge/verge/internal/wire"
)

// Name of the driver in descriptors.
const Name = "wasm"

// DefaultTimeout is how long a module may take for a request where the service says
// nothing: one that loops for ever would keep a processor until then.
const DefaultTimeout = 30 * time.Second

// Options of a Driver.
type Options struct {
	// Dir is where modules and their machine code are kept; it is made when it is
	// needed first. Whoever can write to it can run anything as this process.
	Dir string
	// MaxDisk bounds Dir in bytes, MaxIdle what modules take in memory that nobody
	// uses, and IdleAfter is how long they do: 0 is 1 GiB, 128 MiB and a minute. What
	// is in use is not bounded by these.
	MaxDisk, MaxIdle int64
	IdleAfter        time.Duration
	// Logger is told what goes wrong where no caller is to be told. nil means
	// nobody is.
	Logger *slog.Logger
}

// Driver answers requests with modules.
type Driver struct {
	library *library
	client  *http.Client // of the object store
	log     *slog.Logger
	serving sync.WaitGroup // one per task that has not ended

	mu     sync.Mutex // guards below
	closed bool
	find   func(ctx context.Context, name string) (string, func(), error) // nil: there are no objects
	tasks  map[*task]struct{}                                             // that have not ended
}

var (
	_ runtime.Driver   = (*Driver)(nil)
	_ runtime.Imager   = (*Driver)(nil)
	_ runtime.Stocked  = (*Driver)(nil)
	_ runtime.Resident = (*Driver)(nil)
	_ runtime.Modular  = (*Driver)(nil)
	_ runtime.Task     = (*task)(nil)
)

// New makes a driver. It does nothing until there is a module to run.
func New(o Options) *Driver {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Driver{
		log: log, tasks: map[*task]struct{}{},
		client: &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 10 * time.Second}},
		library: &library{
			disk: modulestore.Disk{Dir: o.Dir, Most: cmp.Or(o.MaxDisk, 1<<30), Least: modulestore.LeastShell},
			most: cmp.Or(o.MaxIdle, 128<<20), idle: cmp.Or(o.IdleAfter, time.Minute),
			log: log, compiling: make(chan struct{}, 1),
			loaded: map[string]*module{}, tasks: map[string]int{},
		},
	}
}

// Name is "wasm".
func (d *Driver) Name() string { return Name }

// Probe says what is different here. It never fails.
func (d *Driver) Probe() (missing string, err error) {
	missing = "cpu limits are rounded up to whole processors, and to all but one of this machine's"
	switch goruntime.GOARCH {
	case "amd64", "arm64":
	default:
		missing += "; modules are interpreted on " + goruntime.GOARCH + ", which is many times slower"
	}
	return missing, nil
}

// Objects implements runtime.Modular.
func (d *Driver) Objects(open func(ctx context.Context, name string) (path string, release func(), err error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.find = open
}

// Resident implements runtime.Resident: tasks are part of this process.
func (d *Driver) Resident() {}

// Close ends all tasks.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	for t := range d.tasks {
		t.kill()
	}
	d.mu.Unlock()
	d.serving.Wait()
	d.library.close()
	d.client.CloseIdleConnections()
	return nil
}

// Fetch implements runtime.Imager: it takes the module of s and compiles it, unless
// that was done before.
func (d *Driver) Fetch(ctx context.Context, s runtime.Spec, progress func(string)) error {
	digest, err := d.prepare(ctx, s, progress)
	if err == nil {
		d.library.drop(digest)
	}
	return err
}

// Stocked implements runtime.Stocked.
func (d *Driver) Stocked(s runtime.Spec) bool {
	if s.Wasm == nil {
		return false
	}
	digest := digestIn(s.Wasm.Module)
	if filepath.IsAbs(s.Wasm.Module) {
		digest = d.library.known(s.Wasm.Module)
	}
	return digest != "" && d.library.ready(digest)
}

// prepare finds a module and makes it ready. It is held until it is dropped.
func (d *Driver) prepare(ctx context.Context, s runtime.Spec, progress func(string)) (digest string, err error) {
	if s.Wasm == nil || s.Wasm.Module == "" {
		return "", errors.New("the service has no module")
	}
	name := s.Wasm.Module
	want := digestIn(name)
	if want != "" && d.library.hold(want) {
		return want, d.library.compile(ctx, want, progress)
	}
	from, release := name, func() {}
	if !filepath.IsAbs(name) {
		d.mu.Lock()
		find := d.find
		d.mu.Unlock()
		if find == nil {
			return "", fmt.Errorf("module %s: this worker has no object store; write the absolute path of a file of the worker", name)
		}
		progress("fetching its module")
		if from, release, err = find(ctx, name); err != nil {
			var p *wire.Problem
			if errors.As(err, &p) && p.Status == http.StatusServiceUnavailable {
				err = fmt.Errorf("%w: %w", runtime.ErrAway, err)
			}
			return "", fmt.Errorf("module %s: %w", name, err)
		}
	}
	defer release()
	if digest, err = d.library.take(from); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("there is no %s on this worker", from)
		}
		return "", fmt.Errorf("module %s: %w", name, err)
	}
	if want != "" && want != digest {
		d.library.drop(digest)
		return "", fmt.Errorf("module %s: it is another one than its name says, which is its SHA-256; deploy it again", name)
	}
	return digest, d.library.compile(ctx, digest, progress)
}

// digestIn is the digest that the name of a module has in it, "" if it has none:
// functions/hello/<SHA-256 in hex>.wasm. A copy of such a module is as good as any.
func digestIn(name string) string {
	base := strings.TrimSuffix(path.Base(name), ".wasm")
	if filepath.IsAbs(name) || len(base) != 64 || strings.Trim(base, "0123456789abcdef") != "" {
		return ""
	}
	return base
}

// Start implements runtime.Driver: from now on requests are answered on s.Wasm.Listen.
// The module is loaded by the first, or now where one waits already: while it finds its
// way here.
func (d *Driver) Start(ctx context.Context, s runtime.Spec) (runtime.Task, error) {
	digest, err := d.prepare(ctx, s, func(string) {})
	if err != nil {
		return nil, err
	}
	if s.Wasm.Soon {
		d.library.expect(digest)
	}
	t, err := d.start(ctx, s, digest)
	if err != nil {
		d.library.drop(digest)
		return nil, err
	}
	return t, nil
}

func (d *Driver) start(ctx context.Context, s runtime.Spec, digest string) (*task, error) {
	sealed, err := d.library.disk.Seal(digest)
	if err != nil {
		return nil, fmt.Errorf("its module: %w", err)
	}
	if s.MemoryLimit > 0 && sealed.Memory > s.MemoryLimit {
		return nil, fmt.Errorf("its module begins with %d bytes of memory, and its limit is %d; raise limits.memory", sealed.Memory, s.MemoryLimit)
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	t := newTask(d, s, digest, boot)
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Wasm.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for requests: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = ln.Close()
		return nil, errors.New("the wasm driver is closed")
	}
	d.tasks[t] = struct{}{}
	d.serving.Go(func() {
		t.serve(ln)
		d.mu.Lock()
		delete(d.tasks, t)
		d.mu.Unlock()
	})
	return t, nil
}

// Adopt implements runtime.Driver: a task ended with the process that had it.
func (d *Driver) Adopt(context.Context, runtime.Spec, runtime.Handle) (runtime.Task, error) {
	return nil, runtime.ErrGone
}

// bootID is the kernel's id of this boot.
var bootID = sync.OnceValues(func() (string, error) {
	if goruntime.GOOS != "linux" {
		return "", nil
	}
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("id of this boot: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
})
