package wasm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/verge-edge/verge/internal/runtime/wasm/modulestore"
)

// runtimeCost is roughly what a loaded module costs besides its code, in bytes: a
// runtime of its own, so that nothing is left when it goes.
const runtimeCost = 300 << 10

// library has the modules of a worker: on disk those that were used, in memory those
// that are.
type library struct {
	disk modulestore.Disk
	most int64         // bytes of modules in memory that nobody uses
	idle time.Duration // after which one is dropped
	log  *slog.Logger
	// keeping is held while modules come to the disk, or go.
	keeping sync.Mutex          // taken before mu
	origins modulestore.Origins // guarded by keeping
	// kept is at most how many bytes the disk has of modules, once they were counted.
	kept    int64 // guarded by keeping
	counted bool  // so is this
	// compiling holds one: a compiler takes a processor for seconds, and sixty
	// megabytes.
	compiling chan struct{}

	mu     sync.Mutex // guards below
	loaded map[string]*module
	tasks  map[string]int // how many tasks there are of each, by digest
	sweep  *time.Timer    // nil where nothing is idle in memory
	closed bool
}

// module is one that is in memory, or on its way.
type module struct {
	digest string
	ready  chan struct{} // closed when the rest is set
	err    error

	rt       wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
	handler  bool // it has the exported handler, and no main program
	memory   int64
	cost     int64

	users int       // guarded by library.mu
	last  time.Time // when the last of them left
}

// compile makes the code of a module that is held, unless it is there. An error lets
// go of the module.
func (l *library) compile(ctx context.Context, digest string, progress func(string)) error {
	if l.ready(digest) {
		return nil // loaded by the first request
	}
	progress("compiling its module")
	m, err := l.open(ctx, digest)
	if err != nil {
		l.drop(digest)
		return err
	}
	l.done(m)
	return nil
}

// ready says whether a module is in memory, or seems to be on disk with its code.
func (l *library) ready(digest string) bool {
	l.mu.Lock()
	there := l.loaded[digest] != nil
	l.mu.Unlock()
	if there {
		return true
	}
	s, err := l.disk.Seal(digest)
	return err == nil && l.disk.HasCode(digest, s)
}

// known is the digest of the module in a file, "" if that is not known.
func (l *library) known(path string) string {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	_, digest := l.origins.Find(path)
	return digest
}

// hold holds a module, if it is on disk, until drop is called.
func (l *library) hold(digest string) bool {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if _, err := l.disk.Seal(digest); err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks[digest]++
	return true
}

// take takes a module from path to the disk, and holds it there until drop is called.
func (l *library) take(path string) (digest string, err error) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	before, known := l.origins.Find(path)
	if _, err := l.disk.Seal(known); known == "" || err != nil {
		if known, err = l.disk.Take(path); err != nil {
			return "", err
		}
		l.origins.Keep(path, before, known)
	}
	digest = known
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks[digest]++
	return digest, nil
}

// clear removes from the disk what is too much and nobody needs, after a module has
// come. Only where there may be too much it looks at all that are there: a thousand that
// come one after another would cost a million looks.
func (l *library) clear(come string) {
	l.keeping.Lock()
	defer l.keeping.Unlock()
	if l.counted {
		l.kept += l.disk.Size(come)
		if l.kept <= l.disk.Most {
			return
		}
	}
	l.mu.Lock()
	used := make(map[string]bool, len(l.tasks)+len(l.loaded))
	for digest := range l.tasks {
		used[digest] = true
	}
	for digest, m := range l.loaded {
		used[digest] = used[digest] || m.users > 0
	}
	l.mu.Unlock()
	var err error
	l.kept, err = l.disk.Clear(func(digest string) bool { return used[digest] })
	l.counted = err == nil
	if err != nil {
		l.log.Warn("old modules are not removed", "error", err)
	}
}

// drop says that a task of a module is over.
func (l *library) drop(digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tasks[digest]--; l.tasks[digest] <= 0 {
		delete(l.tasks, digest)
	}
}

// open returns a module that is in memory until done is called. It may have to wait
// for its code, and for that of others to be compiled.
func (l *library) open(ctx context.Context, digest string) (*module, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, errors.New("the worker's engine ends")
	}
	m := l.bringLocked(digest)
	m.users++
	l.mu.Unlock()
	select {
	case <-m.ready:
	case <-ctx.Done():
		l.done(m)
		return nil, context.Cause(ctx)
	}
	if m.err != nil {
		l.done(m)
		return nil, m.err
	}
	return m, nil
}

// expect has a module loaded that will be opened soon. What goes wrong is told then.
func (l *library) expect(digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.bringLocked(digest)
	}
}

// bringLocked is a module that is in memory or on its way.
func (l *library) bringLocked(digest string) *module {
	m := l.loaded[digest]
	if m == nil {
		m = &module{digest: digest, ready: make(chan struct{}), users: 1} // who loads it
		l.loaded[digest] = m
		go l.load(m) // it is waited for by everybody who wants it, and by close
	}
	return m
}

// done gives a module back.
func (l *library) done(m *module) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.users--; m.users > 0 {
		return
	}
	m.last = time.Now()
	if l.closed {
		return
	}
	var idle int64
	for _, x := range l.loaded {
		if x.users == 0 {
			idle += x.cost
		}
	}
	for idle > l.most {
		idle -= l.evictLocked()
	}
	if l.sweep == nil && len(l.loaded) > 0 {
		l.sweep = time.AfterFunc(l.idle, l.clean)
	}
}

// evictLocked drops the module that has been idle for the longest time, and returns
// what it cost.
func (l *library) evictLocked() int64 {
	var oldest *module
	for _, m := range l.loaded {
		if m.users == 0 && (oldest == nil || m.last.Before(oldest.last)) {
			oldest = m
		}
	}
	if oldest == nil {
		return 1 << 62
	}
	l.unloadLocked(oldest)
	return oldest.cost
}

func (l *library) unloadLocked(m *module) {
	delete(l.loaded, m.digest)
	m.close(l.log)
}

// clean drops what has been idle for long enough. The timer runs only while there is
// something that could be.
func (l *library) clean() {
	l.mu.Lock()
	l.sweep = nil
	var next time.Duration
	dropped := false
	for _, m := range l.loaded {
		if m.users > 0 {
			continue // who gives it back starts the timer again
		}
		if left := l.idle - time.Since(m.last); left > 0 {
			if next == 0 || left < next {
				next = left
			}
			continue
		}
		l.unloadLocked(m)
		dropped = true
	}
	if next > 0 && !l.closed {
		// Those that follow soon go together: each time all of memory is looked through.
		l.sweep = time.AfterFunc(max(next, l.idle/8), l.clean)
	}
	l.mu.Unlock()
	if dropped {
		// Machine code is given back when the collector has seen that nobody uses it,
		// and an idle engine would not collect for minutes.
		goruntime.GC()
		debug.FreeOSMemory()
	}
}

// load brings a module into memory.
func (l *library) load(m *module) {
	cost, err := l.fill(m)
	l.mu.Lock()
	m.cost = cost
	if err != nil {
		m.err = err
		delete(l.loaded, m.digest)
		m.close(l.log)
	}
	l.mu.Unlock()
	close(m.ready)
	l.done(m)
}

func (l *library) fill(m *module) (cost int64, err error) {
	defer func() {
		if p := recover(); p != nil { // the compiler is large
			err = fmt.Errorf("its module can't be compiled: %v", p)
		}
	}()
	defer l.disk.Touch(m.digest, time.Now())
	if binary, sealed, ok := l.disk.Loadable(m.digest); ok && l.loadCode(m, binary, sealed) {
		return runtimeCost + l.disk.Size(m.digest), nil
	}
	m.close(l.log) // what was not to be used
	l.disk.DropCode(m.digest)
	binary, sealed, err := l.disk.Module(m.digest)
	if err != nil {
		return 0, fmt.Errorf("its module: %w", err)
	}
	l.compiling <- struct{}{}
	defer func() { <-l.compiling }()
	if err := m.build(binary, l.disk.Path(m.digest, modulestore.CodeDir)); err != nil {
		return 0, err
	}
	m.memory = sealed.Memory
	if err := l.disk.KeepCode(m.digest, binary, codeName); err != nil {
		l.log.Warn("a compiled module is not kept as it should be", "module", m.digest, "error", err)
	}
	l.clear(m.digest)
	debug.FreeOSMemory() // what compiling took
	return runtimeCost + l.disk.Size(m.digest) + int64(len(binary)), nil
}

// loadCode makes a module of machine code that is there and of what that is loaded
// with. False where that came to nothing: above all where the library did not find the
// code, because it or the processor is another one by now, and compiled a shell instead.
func (l *library) loadCode(m *module, binary []byte, s modulestore.Seal) bool {
	before := l.disk.CodeStat(m.digest, s)
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the library: %v", p)
			}
		}()
		return m.build(binary, l.disk.Path(m.digest, modulestore.CodeDir))
	}()
	if err != nil {
		l.log.Warn("a compiled module is not loaded, it is compiled again", "module", m.digest, "error", err)
		return false
	}
	m.memory = s.Memory
	return l.disk.Unchanged(m.digest, s, before)
}

// build makes what is run of a module, with the machine code that is in a directory;
// where there is none it is compiled, and kept there.
func (m *module) build(binary []byte, code string) (err error) {
	ctx := context.Background() // others may want it too, and it ends by itself
	if m.cache, err = wazero.NewCompilationCacheWithDir(code); err != nil {
		return fmt.Errorf("cache of compiled modules: %w", err)
	}
	m.rt = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCompilationCache(m.cache).WithCloseOnContextDone(true).WithDebugInfoEnabled(false))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.rt); err != nil {
		return fmt.Errorf("system interface: %w", err)
	}
	if err := hostFunctions(ctx, m.rt); err != nil {
		return fmt.Errorf("interface of handlers: %w", err)
	}
	if m.compiled, err = m.rt.CompileModule(ctx, binary); err != nil {
		return fmt.Errorf("its module can't be compiled: %w", err)
	}
	m.handler, err = shape(m.compiled)
	return err
}

// codeName is the name of the file, below the directory of a cache, in which the
// library keeps the machine code of a module: only it knows, so it is asked to make it.
func codeName(binary []byte, scratch string) (string, error) {
	m := &module{}
	defer m.close(slog.New(slog.DiscardHandler))
	if err := m.build(binary, scratch); err != nil {
		return "", err
	}
	files, err := filepath.Glob(filepath.Join(scratch, "*", "*"))
	if err != nil || len(files) != 1 {
		return "", errors.Join(err, fmt.Errorf("the compiler left %d files", len(files)))
	}
	return filepath.Rel(scratch, files[0])
}

// shape says how a module takes requests, and refuses one that can't.
func shape(c wazero.CompiledModule) (handler bool, err error) {
	for _, f := range c.ImportedFunctions() {
		from, name, _ := f.Import()
		if from != wasi_snapshot_preview1.ModuleName && from != hostModule {
			return false, fmt.Errorf("it imports %s.%s, which is not here; a function has wasi_snapshot_preview1 and %s", from, name, hostModule)
		}
	}
	exports := c.ExportedFunctions()
	if f, ok := exports[handlerExport]; ok {
		if len(f.ParamTypes())+len(f.ResultTypes()) > 0 {
			return false, fmt.Errorf("its export %s must have no parameters and no results", handlerExport)
		}
		if _, ok := c.ExportedMemories()["memory"]; !ok {
			return false, errors.New("it does not export its memory")
		}
		return true, nil
	}
	if f, ok := exports["_start"]; !ok || len(f.ParamTypes())+len(f.ResultTypes()) > 0 {
		return false, fmt.Errorf("it exports neither _start (a program that answers one request by CGI) nor %s", handlerExport)
	}
	return false, nil
}

// close frees what a module takes, once nobody uses it.
func (m *module) close(log *slog.Logger) {
	ctx := context.Background()
	var errs []error
	if m.rt != nil {
		errs = append(errs, m.rt.Close(ctx))
	}
	if m.cache != nil {
		errs = append(errs, m.cache.Close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		log.Warn("a module is not closed", "module", m.digest, "error", err)
	}
	m.rt, m.cache, m.compiled = nil, nil, nil
}

// close drops all modules; nobody uses one any more.
func (l *library) close() {
	l.mu.Lock()
	l.closed = true
	if l.sweep != nil {
		l.sweep.Stop()
	}
	var waits []*module
	for _, m := range l.loaded {
		waits = append(waits, m)
	}
	l.mu.Unlock()
	for _, m := range waits {
		<-m.ready
		l.mu.Lock()
		if l.loaded[m.digest] == m {
			l.unloadLocked(m)
		}
		l.mu.Unlock()
	}
}

// inMemory says how many modules are loaded.
func (l *library) inMemory() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.loaded)
}
