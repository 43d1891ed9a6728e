package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of a session.
const (
	maxOutput = 256 << 10 // kept, of both streams together
	maxInput  = 64 << 10  // taken and not read by the program yet
	maxHold   = 30 * time.Second
	// inputHold is how long input is held that there is no room for.
	inputHold = time.Second
	// lastOutput is how long the output of a program that has ended is waited for,
	// should a process that does not belong to it hold its pipe open.
	lastOutput = time.Second
)

// DefaultIdle is how long a session may not be asked before it ends.
const DefaultIdle = 2 * time.Minute

// Options of a Session.
type Options struct {
	// Exec runs the program; runtime.Task's.
	Exec func(ctx context.Context, e runtime.Exec) (wire.Exit, error)
	// Command and Env as in runtime.Exec.
	Command, Env []string
	// Stdin: there is input.
	Stdin bool
	// Terminal gives the program a terminal; nil gives it pipes.
	Terminal *rpc.Terminal
	// Idle is how long it may not be asked; 0 is DefaultIdle.
	Idle time.Duration
	// Over is called once, when the program has ended and nobody is to ask for
	// its output any more: after End, or when it was idle.
	Over func()
}

// Session is one program. Its methods may be called concurrently.
type Session struct {
	opts  Options
	child runtime.Exec
	ours  ends
	// theirs are the program's ends of ours, and not needed after it.
	theirs ends
	last   atomic.Bool // the program has ended: its last output is read

	mu      sync.Mutex    // guards below
	changed chan struct{} // closed and replaced when anything below changes
	out     [2]stream
	// Input: pending was taken and not given to the program yet.
	pending []byte
	taken   int64
	noMore  bool // input has ended after pending
	asking  int  // calls that are being answered
	idle    *time.Timer
	stop    func() // ends the program; nil before Run
	closed  bool   // by End: nothing is kept any more
	why     string
	again   bool // see rpc.ExecOutput
	ended   bool // the program has, and all its output is kept
	exit    *wire.Exit
	over    bool // Over was called
}

// stream is what one of the outputs still has.
type stream struct {
	base int64 // offset of data
	data []byte
}

// New makes a session, to be ended by Run or by End.
func New(o Options) (*Session, error) {
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	s := &Session{opts: o, changed: make(chan struct{})}
	s.child = runtime.Exec{Command: o.Command, Env: o.Env}
	var err error
	if o.Terminal != nil {
		s.child.Env = withTerm(o.Env, o.Terminal.Type)
		err = s.openTerminal(o.Terminal)
	} else {
		err = s.openPipes(o.Stdin)
	}
	if err != nil {
		s.ours.close()
		s.theirs.close()
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = time.AfterFunc(o.Idle, s.expired)
	return s, nil
}

// withTerm sets TERM.
func withTerm(env []string, term string) []string {
	if term == "" {
		return env
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, "TERM=") })
	return append(env, "TERM="+term)
}

// Run runs the program and returns when it has ended and nothing of the session
// works any more. It ends with ctx, too, of which the cause says why. It is called once.
func (s *Session) Run(ctx context.Context) {
	life, stop := context.WithCancel(context.WithoutCancel(ctx)) // ctx ends it by End
	defer stop()
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.stop = stop
	}
	s.mu.Unlock()
	if closed {
		return
	}
	defer context.AfterFunc(ctx, func() {
		why := "the engine of its worker has ended"
		if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
			why = cause.Error()
		}
		s.finish(why, true)
	})()
	var reading, writing sync.WaitGroup
	for i, f := range s.ours.out {
		if f != nil {
			reading.Go(func() { s.read(i, f) })
		}
	}
	if s.ours.in != nil {
		writing.Go(s.write)
	}
	exit, err := s.opts.Exec(life, s.child)
	s.theirs.close()
	s.last.Store(true)
	for _, f := range s.ours.out {
		if f != nil {
			_ = f.SetReadDeadline(time.Now().Add(lastOutput)) // fails for what is closed
		}
	}
	reading.Wait()

	s.mu.Lock()
	s.ended = true
	switch {
	case s.closed: // why is known
	case errors.Is(err, runtime.ErrGone):
		s.why = "the instance has ended"
	case err != nil:
		s.why = err.Error()
	default:
		s.exit = &exit
	}
	s.changeLocked()
	s.mu.Unlock()
	s.ours.close()
	writing.Wait()
	s.settle()
}

// End ends the session, with the program if it still runs; why is for who asks
// for its output now. What is kept is dropped.
func (s *Session) End(why string) { s.finish(why, false) }

// finish is End. again: see rpc.ExecOutput.
func (s *Session) finish(why string, again bool) {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		if !s.ended {
			s.why, s.again = why, again
		}
		s.pending, s.noMore = nil, false
		s.idle.Stop()
		s.changeLocked()
	}
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	} else {
		s.ours.close()
		s.theirs.close()
	}
	s.settle()
}

// Ended says whether the program has ended, as far as can be seen from outside.
func (s *Session) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended || s.closed
}

// settle calls Over, once, if it is time for that.
func (s *Session) settle() {
	s.mu.Lock()
	now := s.closed && (s.ended || s.stop == nil) && !s.over
	s.over = s.over || now
	s.mu.Unlock()
	if now && s.opts.Over != nil {
		s.opts.Over()
	}
}

// ask notes that somebody asks, until the returned function is called.
func (s *Session) ask() (answered func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking++
	s.idle.Stop()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asking--
		if s.asking == 0 && !s.closed {
			s.idle.Reset(s.opts.Idle)
		}
	}
}

// expired ends a session that nobody asks.
func (s *Session) expired() {
	s.mu.Lock()
	asked := s.asking > 0
	s.mu.Unlock()
	if !asked {
		s.End(fmt.Sprintf("nobody asked for its output for %s", s.opts.Idle))
	}
}

func (s *Session) changeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// read keeps what the program writes, until its end. Then only the reading is
// bounded in time: whoever takes the output may be slow.
func (s *Session) read(i int, f *os.File) {
	buf := make([]byte, 16<<10)
	for {
		if s.last.Load() {
			_ = f.SetReadDeadline(time.Now().Add(lastOutput)) // as in Run
		}
		n, err := f.Read(buf)
		s.keep(i, buf[:n])
		if err != nil { // EOF; a terminal's end is an error of its own
			return
		}
	}
}

// keep keeps output, waiting for room. After End it is dropped.
func (s *Session) keep(i int, data []byte) {
	for len(data) > 0 {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return
		}
		room := maxOutput - len(s.out[0].data) - len(s.out[1].data)
		if room > 0 {
			n := min(room, len(data))
			s.out[i].data = append(s.out[i].data, data[:n]...)
			data = data[n:]
			s.changeLocked()
			s.mu.Unlock()
			continue
		}
		changed := s.changed
		s.mu.Unlock()
		<-changed // by an Output that goes on, or by End
	}
}

// Output returns what the program has written from an offset on, and forgets what
// comes before. If there is nothing it waits for something.
func (s *Session) Output(ctx context.Context, q rpc.ExecOffset) (rpc.ExecOutput, error) {
	defer s.ask()()
	hold := time.NewTimer(min(max(time.Duration(q.WaitMs)*time.Millisecond, 0), maxHold))
	defer hold.Stop()
	for {
		s.mu.Lock()
		err := s.forgetLocked([2]int64{q.Stdout, q.Stderr})
		stdout, stderr := s.out[0].data, s.out[1].data
		all := true
		if most := q.Max; most > 0 && len(stdout)+len(stderr) > most {
			// What failed is short mostly, and must not wait for all else.
			stderr = stderr[:min(len(stderr), max(most/2, most-len(stdout)))]
			stdout = stdout[:min(len(stdout), most-len(stderr))]
			all = false
		}
		a := rpc.ExecOutput{Stdout: slices.Clone(stdout), Stderr: slices.Clone(stderr)}
		if all {
			a.Ended, a.Exit, a.Why, a.Again = s.ended || s.closed, s.exit, s.why, s.again
		}
		changed := s.changed
		s.mu.Unlock()
		if err != nil || a.Ended || len(a.Stdout)+len(a.Stderr) > 0 {
			return a, err
		}
		select {
		case <-changed:
		case <-hold.C:
			return a, nil
		case <-ctx.Done():
			return rpc.ExecOutput{}, ctx.Err()
		}
	}
}

// forgetLocked drops what was received.
func (s *Session) forgetLocked(offsets [2]int64) error {
	for i, at := range offsets {
		if o := &s.out[i]; at < o.base || at > o.base+int64(len(o.data)) {
			return wire.Problemf(409, "wrong-offset", "ask from where the last answer ended", "this part of the output is not here",
				"of stream %d there is %d to %d, asked for is %d", i+1, o.base, o.base+int64(len(o.data)), at)
		}
	}
	dropped := false
	for i, at := range offsets {
		o := &s.out[i]
		n := int(at - o.base)
		if n == 0 {
			continue
		}
		dropped = true
		o.base = at
		if o.data = slices.Delete(o.data, 0, n); len(o.data) == 0 {
			o.data = nil
		}
	}
	if dropped {
		s.changeLocked()
	}
	return nil
}

// Input gives the program a piece of input, or its terminal another size. taken
// is how much of the whole input has been taken; the rest is to be sent again.
func (s *Session) Input(ctx context.Context, in rpc.ExecInput) (taken int64, err error) {
	defer s.ask()()
	if in.Terminal != nil {
		s.resize(in.Terminal)
	}
	if len(in.Data) == 0 && !in.End {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.taken, nil
	}
	if s.ours.in == nil || !s.opts.Stdin {
		return 0, wire.Problemf(409, "no-stdin", "start it with stdin (verge exec -i)", "the program has no input", "its session was started without")
	}
	hold := time.NewTimer(inputHold)
	defer hold.Stop()
	for {
		s.mu.Lock()
		took, full := s.takeLocked(in)
		taken, over, changed := s.taken, s.ended || s.closed, s.changed
		s.mu.Unlock()
		switch {
		case over:
			return taken, wire.Problemf(409, "session-ended", "its output says why", "the program has ended", "nobody reads its input any more")
		case took || !full:
			return taken, nil
		}
		select {
		case <-changed:
		case <-hold.C:
			return taken, nil
		case <-ctx.Done():
			return taken, ctx.Err()
		}
	}
}

// takeLocked takes what is new of in and has room; full: there was none.
func (s *Session) takeLocked(in rpc.ExecInput) (took, full bool) {
	if s.noMore || s.closed || in.Offset > s.taken {
		return false, false
	}
	if known := s.taken - in.Offset; known < int64(len(in.Data)) {
		n := min(len(in.Data)-int(known), maxInput-len(s.pending))
		if n == 0 {
			return false, true
		}
		s.pending = append(s.pending, in.Data[known:int(known)+n]...)
		s.taken += int64(n)
		took = true
	}
	if in.End && in.Offset+int64(len(in.Data)) <= s.taken {
		s.noMore, took = true, true
	}
	if took {
		s.changeLocked()
	}
	return took, false
}

// write gives the program what was taken, until its end.
func (s *Session) write() {
	for {
		s.mu.Lock()
		data, end, over, changed := s.pending, s.noMore, s.ended || s.closed, s.changed
		s.mu.Unlock()
		switch {
		case over:
			return
		case len(data) > 0:
			if _, err := s.ours.in.Write(data); err != nil {
				return // closed: nobody reads it any more
			}
			s.mu.Lock()
			// Meanwhile more may have been added, and End may have dropped it.
			if s.pending = s.pending[min(len(data), len(s.pending)):]; len(s.pending) == 0 {
				s.pending = nil
			}
			s.changeLocked()
			s.mu.Unlock()
		case end:
			s.endInput()
			return
		default:
			<-changed
		}
	}
}
