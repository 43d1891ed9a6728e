package session_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/session"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// execute runs a program as a driver would, as far as a session can tell.
func execute(ctx context.Context, e runtime.Exec) (wire.Exit, error) {
	cmd := exec.Command(e.Command[0], e.Command[1:]...)
	cmd.Env = e.Env
	if e.Stdin != nil {
		cmd.Stdin = e.Stdin
	}
	cmd.Stdout, cmd.Stderr = e.Stdout, e.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: e.Terminal}
	if err := cmd.Start(); err != nil {
		return wire.Exit{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })()
	err := cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	var failed *exec.ExitError
	if ctx.Err() != nil {
		return wire.Exit{}, ctx.Err()
	}
	if err != nil && !errors.As(err, &failed) {
		return wire.Exit{}, err
	}
	return wire.Exit{Code: cmd.ProcessState.ExitCode()}, nil
}

func shell(script string) session.Options {
	return session.Options{Exec: execute, Command: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "TERM=dumb"}}
}

func run(t *testing.T, o session.Options) *session.Session {
	t.Helper()
	s, err := session.New(o)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { s.Run(context.Background()) })
	t.Cleanup(func() {
		s.End("the test is over")
		running.Wait()
	})
	return s
}

// taker asks for output as a client does.
type taker struct {
	t        *testing.T
	s        *session.Session
	at       rpc.ExecOffset
	out, err bytes.Buffer
}

func (k *taker) ask() rpc.ExecOutput {
	k.t.Helper()
	k.at.WaitMs = 20_000
	a, err := k.s.Output(k.t.Context(), k.at)
	if err != nil {
		k.t.Fatal(err)
	}
	return a
}

func (k *taker) take() rpc.ExecOutput {
	k.t.Helper()
	a := k.ask()
	k.at.Stdout += int64(len(a.Stdout))
	k.at.Stderr += int64(len(a.Stderr))
	k.out.Write(a.Stdout)
	k.err.Write(a.Stderr)
	return a
}

// end takes all output and returns the last answer.
func (k *taker) end() rpc.ExecOutput {
	k.t.Helper()
	for {
		if a := k.take(); a.Ended {
			return a
		}
	}
}

// until takes output until it contains text.
func (k *taker) until(text string) {
	k.t.Helper()
	for !strings.Contains(k.out.String(), text) {
		if a := k.take(); a.Ended {
			k.t.Fatalf("ended without %q: %q %+v", text, k.out.String(), a)
		}
	}
}

func TestOutputAndExit(t *testing.T) {
	k := &taker{t: t, s: run(t, shell("echo out; echo err >&2; exit 7"))}
	a := k.end()
	if a.Exit == nil || a.Exit.Code != 7 || a.Why != "" || k.out.String() != "out\n" || k.err.String() != "err\n" {
		t.Errorf("%q, %q, %+v", k.out.String(), k.err.String(), a)
	}
	// Whoever did not get the last answer asks again.
	if again := k.ask(); !again.Ended || again.Exit == nil || again.Exit.Code != 7 {
		t.Errorf("asked again: %+v", again)
	}
}

func TestOutputStaysUntilItWasReceived(t *testing.T) {
	k := &taker{t: t, s: run(t, shell("printf 12345; sleep 1000"))}
	var first rpc.ExecOutput
	for len(first.Stdout) < 5 {
		first = k.ask()
	}
	if again := k.ask(); string(again.Stdout) != "12345" {
		t.Errorf("a lost answer is %q the second time", again.Stdout)
	}
	k.at.Stdout = 3
	if rest := k.ask(); string(rest.Stdout) != "45" {
		t.Errorf("after 3 bytes there is %q", rest.Stdout)
	}
	for _, at := range []rpc.ExecOffset{{Stdout: 2}, {Stdout: 6}, {Stdout: 3, Stderr: 1}, {Stdout: -1}} {
		_, err := k.s.Output(t.Context(), at)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != "wrong-offset" {
			t.Errorf("%+v gave %v", at, err)
		}
	}
	k.at = rpc.ExecOffset{Stdout: 5, WaitMs: 20_000}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.s.Output(ctx, k.at); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled question gave %v", err)
	}
	k.at.WaitMs = 0
	if a, err := k.s.Output(t.Context(), k.at); err != nil || a.Ended || len(a.Stdout) > 0 {
		t.Errorf("without waiting: %+v, %v", a, err)
	}
}

// A program that writes more than is kept waits, and goes on.
func TestOutputIsBounded(t *testing.T) {
	const size = 2_000_000
	o := shell("head -c 2000000 /dev/zero; echo end >&2")
	k := &taker{t: t, s: run(t, o)}
	largest := 0
	for {
		a := k.take()
		largest = max(largest, len(a.Stdout)+len(a.Stderr))
		if a.Ended {
			break
		}
	}
	if k.out.Len() != size || k.err.String() != "end\n" {
		t.Errorf("%d bytes, %q", k.out.Len(), k.err.String())
	}
	if largest > 256<<10 {
		t.Errorf("%d bytes were kept", largest)
	}
}

func TestInput(t *testing.T) {
	o := shell("cat; exit 3")
	o.Stdin = true
	s := run(t, o)
	k := &taker{t: t, s: s}
	send := func(in rpc.ExecInput) int64 {
		t.Helper()
		taken, err := s.Input(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	if n := send(rpc.ExecInput{Data: []byte("one ")}); n != 4 {
		t.Errorf("took %d", n)
	}
	if n := send(rpc.ExecInput{Data: []byte("one ")}); n != 4 {
		t.Errorf("took %d the second time", n)
	}
	if n := send(rpc.ExecInput{Offset: 10, Data: []byte("later")}); n != 4 {
		t.Errorf("took %d with a gap", n)
	}
	if n := send(rpc.ExecInput{Offset: 2, Data: []byte("e two ")}); n != 8 {
		t.Errorf("took %d of what overlaps", n)
	}
	k.until("one two ")

	// More than has room.
	all := []byte("one two " + strings.Repeat("more and ", 100_000))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := int64(8); ; {
			n := min(int64(len(all))-at, 48<<10)
			taken, err := s.Input(t.Context(), rpc.ExecInput{Offset: at, Data: all[at : at+n], End: at+n == int64(len(all))})
			if err != nil {
				t.Error(err)
				return
			}
			if at = taken; at == int64(len(all)) {
				return
			}
		}
	}()
	a := k.end()
	<-done
	if a.Exit == nil || a.Exit.Code != 3 || k.out.String() != string(all) {
		t.Errorf("%d bytes of %d, %+v", k.out.Len(), len(all), a)
	}
	var p *wire.Problem
	if _, err := s.Input(t.Context(), rpc.ExecInput{Offset: int64(len(all)), Data: []byte("x")}); !errors.As(err, &p) || p.Code != "session-ended" {
		t.Errorf("input after the end: %v", err)
	}
	if _, err := run(t, shell("sleep 1000")).Input(t.Context(), rpc.ExecInput{Data: []byte("x")}); !errors.As(err, &p) || p.Code != "no-stdin" {
		t.Errorf("input where there is none: %v", err)
	}
}

// The end of the input alone, when all of it was taken before.
func TestEndOfInput(t *testing.T) {
	o := shell("cat")
	o.Stdin = true
	s := run(t, o)
	for _, in := range []rpc.ExecInput{{Data: []byte("x")}, {Offset: 1, End: true}, {Offset: 1, End: true}} {
		if taken, err := s.Input(t.Context(), in); err != nil || taken != 1 {
			t.Fatalf("%+v: %d, %v", in, taken, err)
		}
	}
	k := &taker{t: t, s: s}
	if a := k.end(); a.Exit == nil || a.Exit.Code != 0 || k.out.String() != "x" {
		t.Errorf("%q %+v", k.out.String(), a)
	}
}

func TestTerminal(t *testing.T) {
	o := shell("trap 'stty size' WINCH; trap 'exit 42' INT; echo $TERM; stty size; read -r x; echo got $x; read -r x; while :; do sleep 0.02; done")
	o.Stdin, o.Terminal = true, &rpc.Terminal{Rows: 20, Columns: 70, Type: "vt100"}
	s := run(t, o)
	k := &taker{t: t, s: s}
	at := int64(0)
	say := func(text string, size *rpc.Terminal) {
		t.Helper()
		taken, err := s.Input(t.Context(), rpc.ExecInput{Offset: at, Data: []byte(text), Terminal: size})
		if at += int64(len(text)); err != nil || taken != at {
			t.Fatalf("%d, %v", taken, err)
		}
	}
	k.until("vt100\r\n20 70\r\n")
	say("hello\n", nil)
	k.until("got hello\r\n")
	say("", &rpc.Terminal{Rows: 30, Columns: 99})
	say("\n", nil) // a shell runs its trap after a line
	k.until("30 99\r\n")
	say("\x03", nil)
	if a := k.end(); a.Exit == nil || a.Exit.Code != 42 {
		t.Errorf("%+v", a)
	}

	o = shell("cat; exit 5")
	o.Stdin, o.Terminal = true, &rpc.Terminal{}
	s = run(t, o)
	if _, err := s.Input(t.Context(), rpc.ExecInput{End: true}); err != nil {
		t.Fatal(err)
	}
	if a := (&taker{t: t, s: s}).end(); a.Exit == nil || a.Exit.Code != 5 {
		t.Errorf("at the end of the input: %+v", a)
	}
}

// However a session ends, its program does.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name  string
		end   func(s *session.Session, stop context.CancelCauseFunc)
		why   string
		again bool
	}{
		{"asked to", func(s *session.Session, _ context.CancelCauseFunc) { s.End("no more") }, "no more", false},
		{"with its engine", func(_ *session.Session, stop context.CancelCauseFunc) { stop(nil) }, "the engine of its worker has ended", true},
		{"with an engine that says why", func(_ *session.Session, stop context.CancelCauseFunc) { stop(errors.New("an upgrade")) }, "an upgrade", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var over atomic.Int32
			o := shell("echo ready; yes") // it blocks on its output
			o.Over = func() { over.Add(1) }
			s, err := session.New(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			done := make(chan struct{})
			go func() { defer close(done); s.Run(ctx) }()
			k := &taker{t: t, s: s}
			k.until("ready\n")
			c.end(s, stop)
			<-done
			if a := k.end(); a.Exit != nil || a.Why != c.why || a.Again != c.again {
				t.Errorf("%+v, want %q, %v", a, c.why, c.again)
			}
			s.End("again")
			if over.Load() != 1 || !s.Ended() {
				t.Errorf("over %d times, ended %v", over.Load(), s.Ended())
			}
		})
	}
}

func TestIdle(t *testing.T) {
	// One that runs ends, one that has ended is forgotten, one that does not even
	// begin leaves nothing.
	for name, begin := range map[string]func(s *session.Session){
		"runs": func(s *session.Session) { s.Run(context.Background()) },
		"over": func(s *session.Session) { s.Run(context.Background()) },
		"new":  func(*session.Session) {},
	} {
		t.Run(name, func(t *testing.T) {
			script := "sleep 1000"
			if name == "over" {
				script = "exit 1"
			}
			over := make(chan struct{})
			o := shell(script)
			o.Idle, o.Over = 50*time.Millisecond, func() { close(over) }
			s, err := session.New(o)
			if err != nil {
				t.Fatal(err)
			}
			begin(s)
			<-over
			s.Run(context.Background()) // it is too late
		})
	}
	// One that is asked does not.
	o := shell("sleep 0.5; exit 4")
	o.Idle = 50 * time.Millisecond
	if a := (&taker{t: t, s: run(t, o)}).end(); a.Exit == nil || a.Exit.Code != 4 {
		t.Errorf("%+v", a)
	}
}

func TestWhatCannotBeRun(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("command not found: x"), "command not found: x"},
		{runtime.ErrGone, "the instance has ended"},
	} {
		o := shell("")
		o.Exec = func(context.Context, runtime.Exec) (wire.Exit, error) { return wire.Exit{}, c.err }
		if a := (&taker{t: t, s: run(t, o)}).end(); a.Exit != nil || a.Why != c.want {
			t.Errorf("%+v, want %q", a, c.want)
		}
	}
}

// Who takes only so much gets all of it, piece by piece, and the end with the last one.
func TestOutputInPieces(t *testing.T) {
	k := &taker{t: t, s: run(t, shell("head -c 5000 /dev/zero | tr '\\0' o; head -c 300 /dev/zero | tr '\\0' e >&2; exit 3"))}
	k.at.Max = 100
	for {
		a := k.take()
		if n := len(a.Stdout) + len(a.Stderr); n > 100 {
			t.Fatalf("an answer of %d bytes", n)
		}
		if a.Ended {
			if a.Exit == nil || a.Exit.Code != 3 {
				t.Errorf("it ended with %+v", a)
			}
			break
		}
		if a.Exit != nil {
			t.Error("it is said to have ended, and it has not")
		}
	}
	if k.out.String() != strings.Repeat("o", 5000) || k.err.String() != strings.Repeat("e", 300) {
		t.Errorf("%d and %d bytes came", k.out.Len(), k.err.Len())
	}
}
