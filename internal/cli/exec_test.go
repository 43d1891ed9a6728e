package cli

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// program is a session's program: it upcases its input, says so on stderr, and
// ends with its input, or at once without. lossy lets every other answer of a
// kind get lost, after what it answers was done.
type program struct {
	lossy bool
	exit  *wire.Exit
	why   string

	mu      sync.Mutex
	asks    []rpc.ExecAsk
	n       map[string]int
	key     string
	out     []byte
	taken   int64
	over    bool
	ended   bool
	changed chan struct{}
	sizes   []rpc.Terminal
}

func (p *program) step(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
	p.mu.Lock()
	p.asks = append(p.asks, q)
	if p.n == nil {
		p.n = make(map[string]int)
	}
	p.n[q.Do]++
	lose := p.lossy && p.n[q.Do]%2 == 1
	a, wait, err := p.workLocked(q)
	p.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	if lose {
		return rpc.ExecAnswer{}, wire.Problemf(503, "worker-away", "wait", "the worker is away", "lost")
	}
	return a, err
}

func (p *program) workLocked(q rpc.ExecAsk) (a rpc.ExecAnswer, wait <-chan struct{}, err error) {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	change := func() {
		close(p.changed)
		p.changed = make(chan struct{})
	}
	switch q.Do {
	case rpc.ExecDoStart:
		if p.key != "" && p.key != q.Start.Key {
			return a, nil, fmt.Errorf("started twice")
		}
		p.key, p.over = q.Start.Key, !q.Start.Stdin && q.Start.Terminal == nil
		if q.Start.Terminal != nil {
			p.sizes = append(p.sizes, *q.Start.Terminal)
		}
		return rpc.ExecAnswer{Session: "s1.edge.w1." + q.Instance}, nil, nil
	case rpc.ExecDoInput:
		if q.Input.Terminal != nil {
			p.sizes = append(p.sizes, *q.Input.Terminal)
			change()
		}
		if skip := p.taken - q.Input.Offset; skip >= 0 && skip <= int64(len(q.Input.Data)) {
			rest := q.Input.Data[skip:]
			p.out = append(p.out, bytes.ToUpper(rest)...)
			p.taken += int64(len(rest))
			p.over = p.over || q.Input.End
			change()
		}
		return rpc.ExecAnswer{Taken: p.taken}, nil, nil
	case rpc.ExecDoEnd:
		p.ended = true
		return a, nil, nil
	}
	o := &rpc.ExecOutput{Stdout: slices.Clone(p.out[q.Output.Stdout:]), Ended: p.over}
	if p.over {
		o.Exit, o.Why = p.exit, p.why
		if q.Output.Stderr == 0 {
			o.Stderr = []byte("done\n")
		}
	}
	if len(o.Stdout) == 0 && !p.over {
		wait = p.changed
	}
	return rpc.ExecAnswer{Output: o}, wait, nil
}

func execFixture(t *testing.T, p *program) *fixture {
	t.Helper()
	w := world()
	w.ExecStep = p.step
	return newFixture(t, w)
}

func TestExec(t *testing.T) {
	for _, c := range []struct {
		name  string
		p     *program
		stdin string
		args  []string
		want  result
	}{
		{"output", &program{exit: &wire.Exit{}}, "", []string{"exec", "guestbook.store", "--", "ls", "-l"},
			result{0, "", "done\n"}},
		{"exit code", &program{exit: &wire.Exit{Code: 7}}, "",
			[]string{"exec", "instance/guestbook.store.0", "--", "ls"}, result{7, "", "done\n"}},
		{"two words", &program{exit: &wire.Exit{}}, "", []string{"exec", "inst", "guestbook.store.0", "--", "ls"},
			result{0, "", "done\n"}},
		{"input", &program{exit: &wire.Exit{}}, "hello", []string{"exec", "-i", "guestbook.store", "--", "cat"},
			result{0, "HELLO", "done\n"}},
		{"a terminal that is none", &program{exit: &wire.Exit{Code: 130, Signal: "INT"}}, "x",
			[]string{"exec", "guestbook.store", "-it", "--", "sh"}, result{130, "X", "done\n"}},
		{"lost answers", &program{exit: &wire.Exit{Code: 3}, lossy: true}, strings.Repeat("a line\n", 20_000),
			[]string{"exec", "-i", "guestbook.store", "--", "cat"},
			result{3, strings.Repeat("A LINE\n", 20_000), "done\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := execFixture(t, c.p)
			got := f.runWith(c.stdin, c.args...)
			if got != c.want {
				t.Errorf("exit %d, %d bytes, %q; want %d, %d bytes, %q", got.code, len(got.stdout), got.stderr,
					c.want.code, len(c.want.stdout), c.want.stderr)
			}
			c.p.mu.Lock() // what was lost may still be answered
			defer c.p.mu.Unlock()
			first := c.p.asks[0]
			if first.Instance != "guestbook.store.0" || first.Owner != "admin" ||
				first.Start.Command[0] != c.args[slices.Index(c.args, "--")+1] {
				t.Errorf("asked for %+v %+v", first, first.Start)
			}
			if !c.p.ended {
				t.Error("the session was not ended")
			}
		})
	}
}

func TestExecThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		p    *program
		line string
	}{
		"exec-not-run": {&program{why: "command not found: \"lx\" is in no directory of PATH=/bin"},
			"exec guestbook.store -- lx"},
		"exec-no-command":  {&program{}, "exec guestbook.store"},
		"exec-no-instance": {&program{}, "exec -- ls"},
		"exec-missing":     {&program{}, "exec nothing -- ls"},
		"exec-wrong-kind":  {&program{}, "exec app/guestbook -- ls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := execFixture(t, c.p)
			args := strings.Fields(c.line)
			f.golden(name, f.run(args...), args...)
		})
	}
}

// Nobody answers for good.
func TestExecGivesUp(t *testing.T) {
	p := &program{}
	w := world()
	w.ExecStep = func(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
		if q.Do != rpc.ExecDoStart {
			return rpc.ExecAnswer{}, wire.Problemf(503, "worker-away", "wait", "the worker is away", "worker w1")
		}
		return p.step(ctx, q)
	}
	f := newFixture(t, w)
	got := f.run("exec", "guestbook.store", "--", "ls")
	if got.code != 1 || strings.Count(got.stderr, "trying again") != 1 || !strings.Contains(got.stderr, "worker w1") {
		t.Errorf("%+v", got)
	}
	if waited := f.now.Sub(noon); waited < execTimeout || waited > execTimeout+5*time.Second {
		t.Errorf("waited %s", waited)
	}
}
