package sessions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// task runs commands until they are ended.
type task struct{ runtime.Task }

func (task) Handle() runtime.Handle { return runtime.Handle{Cgroup: "/cg"} }

func (task) Exec(ctx context.Context, _ runtime.Exec) (wire.Exit, error) {
	<-ctx.Done()
	return wire.Exit{}, ctx.Err()
}

// instance runs a task.
type instance struct{}

func (instance) Running() (state.Snapshot, error)              { return state.Snapshot{Task: task{}}, nil }
func (instance) Environment(*state.Snapshot) ([]string, error) { return []string{"A=1"}, nil }
func (instance) Layout() state.Layout                          { return state.Layout{} }
func (instance) Volumes(*wire.Order) ([]workdir.Volume, error) { return nil, nil }
func (instance) Enter(ctx context.Context, _ *state.Snapshot) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

// A session is that of who opened it, and their number is bounded in an instance and in all.
func TestSessionsAreOwnedAndBounded(t *testing.T) {
	var wg sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	x := New(Options{
		Worker: "w1", Log: slog.New(slog.DiscardHandler),
		Find: func(id wire.InstanceID) (Instance, error) {
			if id == "gone" {
				return nil, fmt.Errorf("%w: %q", state.ErrNoInstance, id)
			}
			return instance{}, nil
		},
		Start: func(prepare func() error, run func(context.Context)) error {
			if err := prepare(); err != nil {
				return err
			}
			wg.Go(func() { run(ctx) })
			return nil
		},
		EndExec: func(context.Context,
			string) error {
			t.Error("what is in a control group needs no search")
			return nil
		},
	})
	open := func(instance, key string) (string, error) {
		a, err := x.Step(t.Context(),
			rpc.ExecAsk{Do: rpc.ExecDoStart, Owner: "ann", Instance: instance,
				Start: &rpc.ExecStart{Key: key, Command: []string{"sh"}}})
		return a.Session, err
	}
	problem := func(err error, code string) {
		t.Helper()
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != code {
			t.Errorf("%v, want %s", err, code)
		}
	}
	if _, err := open("gone", "1"); !errors.Is(err, state.ErrNoInstance) {
		t.Errorf("an instance that is not here: %v", err)
	}
	first, err := open("a", "1")
	if again, aerr := open("a", "1"); err != nil || aerr != nil || again != first {
		t.Errorf("asked twice it is %q and %q: %v, %v", first, again, err, aerr)
	}
	step := rpc.ExecAsk{Do: rpc.ExecDoEnd, Owner: "bob", Instance: "a", Session: first}
	_, err = x.Step(t.Context(), step)
	problem(err, rpc.CodeNoSession)
	step.Owner, step.Instance = "ann", "b"
	_, err = x.Step(t.Context(), step)
	problem(err, rpc.CodeNoSession)
	for n := 2; n <= maxInstanceSessions; n++ {
		if _, err := open("a", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	_, err = open("a", "more")
	problem(err, "too-many-sessions")
	for n := maxInstanceSessions; n < maxSessions; n++ {
		if _, err := open(fmt.Sprint("i", n), "1"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = open("another", "1")
	problem(err, "too-many-sessions")
	if x.Count() != maxSessions {
		t.Errorf("%d sessions", x.Count())
	}
	if _, err := x.Step(t.Context(), rpc.ExecAsk{Do: rpc.ExecDoStart}); !errors.Is(err, state.ErrBadQuery) {
		t.Errorf("a session without a kind: %v", err)
	}
	end()
	wg.Wait()
}
