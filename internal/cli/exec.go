package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term" // raw mode and sizes of terminals, which every system does in another way

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// execChunk is how much input is sent at a time.
	execChunk = 32 << 10
	// execHold is how long a request for output is held. If who answers dies
	// meanwhile nobody hears of it before that is over.
	execHold = 5 * time.Second
	// execTimeout is how long nobody may answer before it is given up; a session
	// lives two minutes without being asked.
	execTimeout = 100 * time.Second
	// execQuiet is how long there may be no answer before the user gets a message.
	execQuiet = 5 * time.Second
	// exitInterrupted is that of a program ended by Ctrl-C, as a shell says it.
	exitInterrupted = 130
	// exitLost is that of a program that ended with the engine that had it, as ssh says of
	// a connection.
	exitLost = 255
	ctrlC    = 3
)

// remoteExit passes on the exit code of a remote program, without a message.
type remoteExit struct{ code int }

func (e *remoteExit) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func (a *app) execCommand() *cobra.Command {
	stdin, tty := false, false
	cmd := &cobra.Command{
		Use:   "exec INSTANCE [-i] [-t] -- COMMAND [ARGUMENT…]",
		Short: "Run a command beside an instance, in its directory and environment",
		Long: "Run a command beside an instance: in its directory, with its environment and within its limits.\n" +
			"The exit code is that of the command; 1 also if it could not be run, and 255 if the engine of\n" +
			"its worker was upgraded or died meanwhile.",
		Example: "  verge exec guestbook.store.0 -- ls -l\n  verge exec instance/guestbook.store.0 -it -- sh",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if at < 0 && len(args) > 1 {
				at = 1
			}
			if at < 1 || at > 2 || len(args) <= at {
				return usageError(cmd, "write INSTANCE -- COMMAND")
			}
			name, err := instanceRef(args[:at])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			i, err := findInstance(cmd.Context(), c, name)
			if err != nil {
				return err
			}
			return a.exec(cmd.Context(), c, i.ID, args[at:], stdin, tty)
		},
	}
	cmd.Flags().BoolVarP(&stdin, "stdin", "i", false, "pass standard input to the command")
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	return cmd
}

// execution is one session from this side.
type execution struct {
	a       *app
	c       *client.Client
	session string
	// give gives up: what somebody waits for is not coming.
	give context.CancelFunc
	// silent since nobody answers, in nanoseconds of the epoch; 0 if somebody does.
	silent atomic.Int64
	told   atomic.Bool // the user has been told that

	sending sync.Mutex // one piece of input at a time
	sent    int64
	// out and problems get what comes.
	out, problems io.Writer
}

func (a *app) exec(ctx context.Context, c *client.Client, id string, command []string, stdin, tty bool) error {
	start := rpc.ExecStart{Key: wire.NewID(), Command: command, Stdin: stdin}
	if tty {
		start.Terminal = a.terminal()
	}
	// The terminal is as it was before when these end, too.
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer unhook()
	ctx, give := context.WithCancel(ctx)
	defer give()
	e := &execution{a: a, c: c, give: give, out: a.out, problems: a.err}
	var err error
	if e.session, err = twice(ctx, func() (string, error) { return c.Exec.Start(ctx, id, start) }); err != nil {
		return err
	}
	defer e.end(context.WithoutCancel(ctx))
	if tty && stdin {
		restore, err := makeRaw(a.in)
		if err != nil {
			return err
		}
		defer restore()
		defer context.AfterFunc(ctx, restore)()
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	defer give() // before that
	if tty {
		beside.Go(func() { e.followSize(ctx) })
	}
	if stdin {
		// Nothing ends a read of standard input but its end, or that of this process.
		go e.input(ctx, a.in, tty)
	}
	return e.output(ctx)
}

// twice starts a session. Whoever gets no answer asks once more: the key makes it
// the same session.
func twice(ctx context.Context, start func() (session string, err error)) (string, error) {
	session, err := start()
	if passing(err) && ctx.Err() == nil {
		session, err = start()
	}
	return session, err
}

// passing says whether an error may be gone the next time: somebody is away.
func passing(err error) bool {
	var p *wire.Problem
	if !errors.As(err, &p) {
		return false
	}
	switch p.Status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	}
	return p.Code == client.CodeUnreachable
}

// end ends the session if the server is reachable. Otherwise it ends by itself when it is idle.
func (e *execution) end(ctx context.Context) {
	const timeout = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_ = e.c.Exec.End(ctx, e.session)
}

// output prints what the program writes until it has ended.
func (e *execution) output(ctx context.Context) error {
	last, err := e.drain(ctx)
	switch {
	case err != nil && !sessionGone(err):
		return err
	case err != nil || last.Again:
		return &lostError{userError{what: "the command did not finish", why: lostWhy(last, err), next: "run it again"}}
	case last.Exit == nil:
		return &userError{what: "the command did not finish", why: last.Why}
	case last.Exit.Code != 0:
		return &remoteExit{last.Exit.Code}
	}
	return nil
}

// lostError is of what ended with the engine that had it.
type lostError struct{ userError }

// sessionGone says that an engine does not know a session: it was started anew, or took
// over from the one that had it.
func sessionGone(err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Code == rpc.CodeNoSession
}

// lostWhy is why a session is no more, by the last of it or by who does not know it.
func lostWhy(last rpc.ExecOutput, err error) string {
	if err != nil {
		return "the engine of its worker ended or was upgraded"
	}
	return last.Why
}

// drain hands on what comes until the session has ended, and returns the last of it.
func (e *execution) drain(ctx context.Context) (rpc.ExecOutput, error) {
	var out, problems int64
	for {
		asked := e.a.opts.Now()
		chunk, err := e.c.Exec.Read(ctx, e.session, out, problems, execHold)
		if ctx.Err() != nil {
			return chunk, &remoteExit{exitInterrupted}
		}
		if err != nil {
			if err := e.lost(ctx, err); err != nil {
				return chunk, err
			}
			continue
		}
		e.found()
		for _, w := range []struct {
			to   io.Writer
			data []byte
		}{{e.out, chunk.Stdout}, {e.problems, chunk.Stderr}} {
			if len(w.data) == 0 {
				continue
			}
			if _, err := w.to.Write(w.data); err != nil {
				return chunk, fmt.Errorf("write the command's output: %w", err)
			}
		}
		out += int64(len(chunk.Stdout))
		problems += int64(len(chunk.Stderr))
		switch {
		case chunk.Ended:
			return chunk, nil
		case len(chunk.Stdout)+len(chunk.Stderr) == 0:
			e.a.pace(ctx, asked)
		}
	}
}

// lost waits a little before something is asked again; it is an error if there
// is no use.
func (e *execution) lost(ctx context.Context, err error) error {
	now := e.a.opts.Now()
	var since time.Duration
	if !e.silent.CompareAndSwap(0, now.UnixNano()) {
		// The other direction may have found somebody meanwhile: 0 is no time.
		if silent := e.silent.Load(); silent != 0 {
			since = now.Sub(time.Unix(0, silent))
		}
	}
	if !passing(err) || since > execTimeout {
		return err
	}
	const pause = 500 * time.Millisecond
	if since > execQuiet && e.told.CompareAndSwap(false, true) {
		// The terminal may be raw.
		e.a.notef("\rverge: %s; trying again (Ctrl-C gives up)\r", clean(firstLine(err)))
	}
	_ = e.a.opts.Sleep(ctx, pause) // the loops look at ctx
	return nil
}

// found notes that somebody answers.
func (e *execution) found() {
	e.silent.Store(0)
	e.told.Store(false)
}

// input sends standard input until its end.
func (e *execution) input(ctx context.Context, from io.Reader, raw bool) {
	buf := make([]byte, execChunk)
	for ctx.Err() == nil {
		n, err := from.Read(buf)
		if raw && e.silent.Load() != 0 {
			for _, b := range buf[:n] {
				if b == ctrlC { // there is nobody else to hear it
					e.give()
				}
			}
		}
		if !e.send(ctx, buf[:n], err != nil) || err != nil {
			return
		}
	}
}

// send sends a piece of input until it is taken; false if it never will be.
func (e *execution) send(ctx context.Context, data []byte, end bool) bool {
	e.sending.Lock()
	defer e.sending.Unlock()
	for len(data) > 0 || end {
		taken, err := e.c.Exec.Send(ctx, e.session, rpc.ExecInput{Offset: e.sent, Data: data, End: end})
		if ctx.Err() != nil {
			return false
		}
		if err != nil {
			if e.lost(ctx, err) != nil {
				return false // the output says why
			}
			continue
		}
		all := taken >= e.sent+int64(len(data))
		if n := taken - e.sent; n > 0 {
			data, e.sent = data[min(n, int64(len(data))):], taken
		}
		if all {
			break
		}
	}
	return true
}

// followSize tells the program's terminal when ours gets another size.
func (e *execution) followSize(ctx context.Context) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		for size := e.a.terminal(); ctx.Err() == nil; {
			_, err := e.c.Exec.Send(ctx, e.session, rpc.ExecInput{Terminal: size})
			if err == nil || e.lost(ctx, err) != nil {
				break
			}
		}
	}
}

// terminal is what the program's terminal should be like: ours.
func (a *app) terminal() *rpc.Terminal {
	t := &rpc.Terminal{Rows: 24, Columns: 80}
	if name := a.opts.Getenv("TERM"); terminalType().MatchString(name) {
		t.Type = name
	}
	for _, f := range []any{a.out, a.in} {
		if f, ok := f.(*os.File); ok {
			if columns, rows, err := term.GetSize(int(f.Fd())); err == nil && rows > 0 && columns > 0 {
				t.Rows, t.Columns = rows, columns
				break
			}
		}
	}
	return t
}

// terminalType is what a server takes for one.
var terminalType = pattern.Lazy(`^[A-Za-z0-9._+-]{1,64}$`)

// makeRaw hands every key on that is pressed, if from is a terminal. restore may
// be called more than once.
func makeRaw(from io.Reader) (restore func(), err error) {
	f, ok := from.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}, nil
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set the terminal to raw mode: %w", err)
	}
	return sync.OnceFunc(func() {
		_ = term.Restore(int(f.Fd()), before) // the terminal is gone otherwise
	}), nil
}
