package wasm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/verge-edge/verge/internal/runtime/wasm/cgi"
	"github.com/verge-edge/verge/internal/runtime/wasm/guestfs"
)

// instance is a module that was given its memory: for one request, or, with the
// exported handler, for one after another.
type instance struct {
	task   *task
	module *module
	mod    api.Module
	purse  *purse
	call   atomic.Pointer[call] // the request that it works on, nil if none
	log    *logWriter
	last   time.Time // when it was given back
}

// call is one request that an instance works on.
type call struct {
	ctx context.Context
	a   *answer
	// slept is the time that the module has slept, or waited for an object; of the
	// goroutine that runs it.
	slept time.Duration
}

// sleep is what a module does when it sleeps: no longer than its request lasts.
func (i *instance) sleep(ns int64) {
	c := i.call.Load()
	if c == nil || ns <= 0 {
		return
	}
	c.a.send()
	start := time.Now()
	c.a.turn.give()
	defer func() {
		c.a.turn.take()
		c.slept += time.Since(start)
	}()
	t := time.NewTimer(time.Duration(ns))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
}

// config is what every instance of the task gets.
func (i *instance) config(stdin io.Reader, stdout io.Writer, env []string) wazero.ModuleConfig {
	t := i.task
	c := wazero.NewModuleConfig().WithName("").WithStartFunctions().
		WithArgs(t.args...).
		WithStdin(stdin).WithStdout(stdout).WithStderr(i.log).
		WithSysWalltime().WithSysNanotime().WithNanosleep(i.sleep).WithRandSource(rand.Reader)
	for _, list := range [][]string{t.env, env} {
		for _, kv := range list {
			name, value, _ := strings.Cut(kv, "=")
			c = c.WithEnv(name, value)
		}
	}
	files := wazero.NewFSConfig()
	if t.dir != "" {
		files = files.WithFSMount(guestfs.Files{Dir: t.dir, Files: t.spec.Wasm.Files}, "/")
	}
	if t.objects != "" {
		files = files.WithFSMount(&guestfs.Objects{Base: t.objects, Client: t.driver.client, Ctx: i.context, Waiting: i.waiting}, "/objects")
	}
	return c.WithFSConfig(files)
}

// context is that of the request that the instance works on.
func (i *instance) context() context.Context {
	if c := i.call.Load(); c != nil {
		return c.ctx
	}
	return context.Background()
}

// waiting gives the turn back while f waits for somebody else.
func (i *instance) waiting(f func()) {
	c := i.call.Load()
	if c == nil {
		f()
		return
	}
	start := time.Now()
	c.a.turn.give()
	f()
	c.a.turn.take()
	c.slept += time.Since(start)
}

// trap is what came of a run that did not end well.
type trap struct {
	why    string
	memory bool // it was refused memory before
}

func (t *trap) Error() string {
	if t.memory {
		return t.why + "; before that it was refused memory: see limits.memory"
	}
	return t.why
}

// make gives a module its memory and lets it initialise itself. The memory for it is
// in the purse already.
func (i *instance) make(ctx context.Context, config wazero.ModuleConfig) error {
	err := i.guard(func() (err error) {
		ctx := experimental.WithMemoryAllocator(ctx, i.purse)
		i.mod, err = i.module.rt.InstantiateModule(ctx, i.module.compiled, config)
		return err
	})
	if err != nil {
		return err
	}
	if i.mod.ExportedFunction("_initialize") != nil && i.module.handler {
		return i.run(ctx, "_initialize")
	}
	return nil
}

// run calls an export without parameters, until it returns, traps, exits, or ctx is
// done.
func (i *instance) run(ctx context.Context, export string) error {
	return i.guard(func() error {
		_, err := i.mod.ExportedFunction(export).Call(ctx)
		return err
	})
}

// guard runs a step of a module and says what came of it.
func (i *instance) guard(step func() error) (err error) {
	defer func() {
		if p := recover(); p != nil { // of the library: it recovers those of modules
			err = &trap{fmt.Sprint(p), i.purse.denied}
		}
	}()
	err = step()
	var exit *sys.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == 0:
		return nil
	case errors.As(err, &exit) && (exit.ExitCode() == sys.ExitCodeDeadlineExceeded || exit.ExitCode() == sys.ExitCodeContextCanceled):
		return &trap{"it was ended", i.purse.denied}
	case errors.As(err, &exit):
		return &trap{fmt.Sprintf("it exited with %d", exit.ExitCode()), i.purse.denied}
	}
	why, _, _ := strings.Cut(err.Error(), "\n") // the rest is a trace, for the log
	fmt.Fprintf(i.log, "trap: %v\n", err)       //nolint:errcheck // it is lost then
	return &trap{strings.TrimSuffix(why, " (recovered by wazero)"), i.purse.denied}
}

// end frees what the instance has.
func (i *instance) end() {
	if i.mod != nil {
		_ = i.mod.Close(context.Background()) // it has nothing that could fail to close
	}
	i.purse.close()
	i.log.close()
	i.task.driver.library.done(i.module)
}

// serve answers a request with the instance. An error is the function's.
func (i *instance) serve(ctx context.Context, a *answer, r *http.Request) error {
	c := &call{ctx: ctx, a: a}
	i.call.Store(c)
	a.turn = &turn{of: i.task.turns, ctx: ctx}
	a.turn.take()
	defer func() {
		a.turn.give()
		a.turn = nil
	}()
	start := time.Now()
	defer func() {
		i.call.Store(nil)
		i.task.busy.Add(int64(max(time.Since(start)-c.slept-a.blocked, 0)))
		i.task.peak(i.purse.size)
	}()
	body := source{Reader: r.Body, a: a}
	vars := cgi.Variables(r, i.task.names)
	var err error
	if i.module.handler {
		x := &exchange{vars: []byte(strings.Join(vars, "\x00") + "\x00"), body: body, out: a}
		if len(x.vars) > maxRequest {
			return &trap{fmt.Sprintf("the head of the request is longer than %d bytes", maxRequest), false}
		}
		ctx = context.WithValue(ctx, exchangeKey{}, x)
		if i.mod == nil {
			err = i.make(ctx, i.config(strings.NewReader(""), i.log, nil))
		}
		if err == nil {
			err = i.run(ctx, handlerExport)
		}
	} else if err = i.make(ctx, i.config(body, a, vars)); err == nil {
		err = i.run(ctx, "_start")
	}
	i.log.flush()
	if a.err != nil && !errors.Is(err, context.Canceled) {
		return a.err // which is why it failed, if it did
	}
	if err == nil && !a.begun {
		return cgi.NotCGI("it ended without an answer")
	}
	return err
}
