package wasm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/ending"
	"github.com/verge-edge/verge/internal/runtime/wasm/cgi"
	"github.com/verge-edge/verge/internal/runtime/wasm/modulestore"
	"github.com/verge-edge/verge/internal/wire"
)

// objectsVar is the variable with the URL of the worker's objects.
const objectsVar = "VERGE_OBJECTS"

// idleConnection is how long a connection to a task is kept without a request.
const idleConnection = 10 * time.Second

// maxUnread bounds what is read of a body that a function left, in bytes, so that its
// connection goes on.
const maxUnread = 1 << 20

var errNotServed = errors.New("the wasm driver is closed")

// task answers the requests of one instance of a service.
type task struct {
	driver  *Driver
	spec    runtime.Spec
	digest  string
	handle  runtime.Handle
	args    []string
	env     []string
	names   map[string]bool // of env
	dir     string          // with its files, "" without any
	objects string          // URL of the object store, "" without one
	timeout time.Duration
	memory  *budget
	places  chan struct{} // one for each request that is worked on
	turns   *turns        // of those of them that compute

	server *http.Server
	stop   context.CancelFunc // ends all requests
	killed atomic.Bool
	end    *ending.Ending

	busy  atomic.Int64 // nanoseconds of runs, without what they waited
	most  atomic.Int64 // bytes that the largest of them had
	quits sync.Once

	mu      sync.Mutex // guards below
	over    bool
	pool    []*instance // that wait for a request, the newest last
	trimmer *time.Timer // nil where there is nothing in the pool
}

func newTask(d *Driver, s runtime.Spec, digest, boot string) *task {
	t := &task{
		driver: d, spec: s, digest: digest, handle: runtime.Handle{Boot: boot},
		args: s.Command, env: s.Env, names: map[string]bool{},
		timeout: cmp.Or(s.Wasm.Timeout, DefaultTimeout), memory: newBudget(s.MemoryLimit),
		places: make(chan struct{}, cmp.Or(max(s.Wasm.Concurrency, 0), wire.DefaultConcurrency)),
		turns:  newTurns(s.CPULimit), end: ending.New(errNotServed),
	}
	if len(s.Wasm.Files) > 0 {
		t.dir = s.Dir
	}
	for _, kv := range s.Env {
		name, value, _ := strings.Cut(kv, "=")
		t.names[name] = true
		if name == objectsVar {
			t.objects = value
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	t.server = &http.Server{
		Handler: t, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: idleConnection, MaxHeaderBytes: cgi.MaxHead,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(io.Discard, "", 0),
	}
	return t
}

// serve answers requests until the task is ended, and notes that.
func (t *task) serve(ln net.Listener) {
	err := t.server.Serve(ln)
	exit := wire.Exit{Attempt: t.spec.Attempt}
	if !errors.Is(err, http.ErrServerClosed) {
		exit.Code, exit.Why = 1, "it can't be listened for requests: "+err.Error()
		_ = t.server.Close()
	} else if !t.killed.Load() {
		// It is shut down: what was begun is finished, for as long as it may take.
		_ = t.server.Shutdown(context.Background())
	}
	if t.killed.Load() {
		exit.Code, exit.Signal = 128+int(syscall.SIGKILL), "KILL"
	}
	t.stop()
	for range cap(t.places) { // nobody works any more
		t.places <- struct{}{}
	}
	t.trim(0)
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.driver.library.drop(t.digest)
	exit.At = time.Now()
	t.end.Set(exit)
	t.end.Stop()
}

// ServeHTTP answers a request with an instance of the module.
func (t *task) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := t.answer(w, r)
	if a == nil || a.read || r.ContentLength <= 0 || r.ContentLength > maxUnread || r.Header.Get("Expect") != "" || r.ProtoMajor != 1 {
		return // nothing is left, or it is not certain that the client sends it all
	}
	// The server would read what is left of the body when it has the answer out, and, as
	// reading and writing are independent here, take its end for a read that still goes on
	// and cut the connection: the next request on it would have no answer.
	if a.rc.Flush() == nil {
		_, _ = io.Copy(io.Discard, r.Body) // what does not come in time is cut
	}
}

// answer answers a request; what it returns, nil where it never came to that, knows
// whether the body was read.
func (t *task) answer(w http.ResponseWriter, r *http.Request) *answer {
	ctx, cancel := context.WithTimeout(r.Context(), t.timeout)
	defer cancel()
	select {
	case t.places <- struct{}{}:
		defer func() { <-t.places }()
	case <-ctx.Done():
		t.refuse(w, http.StatusServiceUnavailable, "busy", "the function is busy", fmt.Sprintf("it works on %d requests, as many as its concurrency allows", cap(t.places)))
		return nil
	}
	i, err := t.acquire(ctx)
	switch {
	case errors.Is(err, errCrowded):
		t.refuse(w, http.StatusServiceUnavailable, "no-memory", "the function has no memory left", err.Error()+"; raise limits.memory, or lower concurrency")
		return nil
	case err != nil && ctx.Err() != nil:
		t.refuse(w, http.StatusGatewayTimeout, "function-timeout", "the function is not ready in time", err.Error())
		return nil
	case err != nil:
		t.refuse(w, http.StatusBadGateway, "function-failed", "the function can't be started", err.Error())
		return nil
	}
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex() // HTTP/2 is so anyway
	// A client that neither sends nor takes anything must not hold the instance.
	deadline, _ := ctx.Deadline()
	_ = rc.SetReadDeadline(deadline)
	_ = rc.SetWriteDeadline(deadline.Add(time.Second)) // for the answer that says so
	a := &answer{w: w, rc: rc}
	err = i.serve(ctx, a, r)
	if err == nil && i.module.handler && !i.mod.IsClosed() {
		t.giveBack(i)
	} else {
		i.end()
	}
	if err != nil {
		t.failed(ctx, r.Context(), a, err)
	}
	_ = rc.SetWriteDeadline(time.Time{}) // the connection goes on
	return a
}

// failed answers for a function that did not, or not to the end.
func (t *task) failed(ctx, request context.Context, a *answer, err error) {
	logged := &logWriter{dir: t.spec.LogDir}
	defer logged.close()
	timeout := errors.Is(ctx.Err(), context.DeadlineExceeded)
	if timeout && request.Err() == nil {
		err = fmt.Errorf("it took longer than %s", t.timeout)
	}
	_, _ = fmt.Fprintf(logged, "verge: request failed: %v\n", err)
	switch {
	case a.begun:
		panic(http.ErrAbortHandler) // the client must not take this for the whole answer
	case timeout:
		// Its time was that of reading, too: what reads ahead has failed by it, and with that
		// all further requests of the connection.
		a.w.Header().Set("Connection", "close")
		t.refuse(a.w, http.StatusGatewayTimeout, "function-timeout", "the function took too long", err.Error()+"; timeout in the descriptor says how long it may")
	default:
		t.refuse(a.w, http.StatusBadGateway, "function-failed", "the function failed", err.Error())
	}
}

// refuse writes a problem body (RFC 9457).
func (t *task) refuse(w http.ResponseWriter, status int, code, title, detail string) {
	p := wire.Problemf(status, code, "", title, "%s: %s", t.spec.ID, detail)
	w.Header().Set("Content-Type", "application/problem+json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// acquire returns an instance that nobody else uses.
func (t *task) acquire(ctx context.Context) (*instance, error) {
	t.mu.Lock()
	if n := len(t.pool); n > 0 {
		i := t.pool[n-1]
		t.pool = t.pool[:n-1]
		t.mu.Unlock()
		return i, nil
	}
	t.mu.Unlock()
	m, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	// What runs of it have needed before is taken at once, so that those that were
	// let begin can end.
	need := max(m.memory, t.most.Load())
	if err := t.memory.await(ctx, need); err != nil {
		t.driver.library.done(m)
		return nil, err
	}
	return &instance{
		task: t, module: m, purse: &purse{of: t.memory, had: need},
		log: &logWriter{dir: t.spec.LogDir},
	}, nil
}

// open loads the module of the task. Where its copy is damaged it takes it again from
// where it came, if it is still there.
func (t *task) open(ctx context.Context) (*module, error) {
	m, err := t.driver.library.open(ctx, t.digest)
	if !errors.Is(err, modulestore.ErrDamaged) {
		return m, err
	}
	t.driver.log.Warn("a module on disk is damaged and taken again", "instance", t.spec.ID, "module", t.digest)
	digest, e := t.driver.prepare(ctx, t.spec, func(string) {})
	if e != nil {
		return nil, errors.Join(err, e)
	}
	defer t.driver.library.drop(digest)
	if digest != t.digest {
		return nil, fmt.Errorf("%w, and %s is another one by now; restart the service", err, t.spec.Wasm.Module)
	}
	return t.driver.library.open(ctx, t.digest)
}

// giveBack keeps an instance for the next request.
func (t *task) giveBack(i *instance) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i.last = time.Now()
	t.pool = append(t.pool, i)
	if t.trimmer == nil {
		idle := t.driver.library.idle
		t.trimmer = time.AfterFunc(idle, func() { t.trim(idle) })
	}
}

// trim ends the instances that have waited for a request for so long.
func (t *task) trim(idle time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trimmer != nil {
		t.trimmer.Stop()
		t.trimmer = nil
	}
	n := 0
	for n < len(t.pool) && time.Since(t.pool[n].last) >= idle {
		n++
	}
	for _, i := range t.pool[:n] {
		i.end()
	}
	t.pool = append([]*instance(nil), t.pool[n:]...)
	if len(t.pool) > 0 {
		t.trimmer = time.AfterFunc(idle-time.Since(t.pool[0].last), func() { t.trim(idle) })
	}
}

// peak notes how much memory a run had.
func (t *task) peak(size int64) {
	for {
		most := t.most.Load()
		if size <= most || t.most.CompareAndSwap(most, size) {
			return
		}
	}
}

// Handle implements runtime.Task.
func (t *task) Handle() runtime.Handle { return t.handle }

// Wait implements runtime.Task.
func (t *task) Wait(ctx context.Context) (wire.Exit, error) { return t.end.Wait(ctx) }

// Signal implements runtime.Task. A module has no signals: each that ends a program
// lets it answer what it has begun, and nothing more. KILL ends that too.
func (t *task) Signal(name string) error {
	sig, err := ending.Signal(name)
	if err != nil {
		return err
	}
	if t.end.Over() {
		return runtime.ErrGone
	}
	switch sig {
	case syscall.SIGKILL:
		t.kill()
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2:
		t.quit()
	default:
		return fmt.Errorf("a wasm module has no signals, so not %s either; TERM ends it when it has answered", name)
	}
	return nil
}

// quit lets no more requests begin, and returns at once.
func (t *task) quit() {
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	t.quits.Do(func() { _ = t.server.Shutdown(ctx) }) // serve waits for the rest
}

// kill ends all requests.
func (t *task) kill() {
	if !t.end.Over() {
		t.killed.Store(true)
	}
	_ = t.server.Close() // before requests end, or their clients see an error
	t.stop()
}

// Kill implements runtime.Task.
func (t *task) Kill(ctx context.Context) error {
	t.kill()
	if err := t.end.Reached(ctx); err != nil {
		return fmt.Errorf("kill: its requests do not end: %w", err)
	}
	return nil
}

// Cleanup implements runtime.Task: all there was is gone with its end.
func (t *task) Cleanup() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return t.Kill(ctx)
}

// Exec implements runtime.Task: there is none.
func (t *task) Exec(context.Context, runtime.Exec) (wire.Exit, error) {
	return wire.Exit{}, wire.Problemf(http.StatusUnprocessableEntity, "no-exec", "use verge fn invoke and verge logs",
		"a function has no commands", "%s is a wasm module in the worker's engine: no program can run beside it", t.spec.ID)
}

// Usage implements runtime.Task: the time of its runs, without what they waited, and
// the memory that its instances have. The machine code, which services share, is not
// in it.
func (t *task) Usage() runtime.Usage {
	return runtime.Usage{CPU: time.Duration(t.busy.Load()), Memory: t.memory.inUse(), Tasks: min(len(t.places), math.MaxInt32)}
}
