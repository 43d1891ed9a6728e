package supervise

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/enginetest"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/secrets"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
)

// fake is all that a supervisor works with: a driver with one task at a time, a router that
// is idle, a board that keeps what was put last.
type fake struct {
	runtime.Driver
	mu     sync.Mutex
	starts int
	task   *fakeTask
	shown  wire.InstanceStatus
	off    *status.Unavailable
	wrong  map[string]error
	used   time.Time
}

func (f *fake) Start(context.Context, runtime.Spec) (runtime.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts++
	f.task = &fakeTask{pid: f.starts, ends: make(chan wire.Exit, 1)}
	return f.task, nil
}

func (f *fake) Put(s wire.InstanceStatus, off *status.Unavailable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shown, f.off = s, off
}
func (f *fake) Awaited(wire.InstanceID)               {}
func (f *fake) AnswersAt(wire.InstanceID, netip.Addr) {}
func (f *fake) Tell(string, string)                   {}
func (f *fake) Set(subject string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.wrong[subject] = err
	} else {
		delete(f.wrong, subject)
	}
}
func (f *fake) WaitIdle(context.Context, wire.InstanceID) error { return nil }
func (f *fake) LastRequest(wire.InstanceID) time.Time           { return f.used }
func (f *fake) Attach(*wire.Order, *overlay.Place, int, string) (network.Attachment, error) {
	return network.Attachment{}, nil
}
func (f *fake) Detach(wire.InstanceID) error               { return nil }
func (f *fake) Waits(error) bool                           { return false }
func (f *fake) URL(string, string) string                  { return "" }
func (f *fake) Of(*wire.Order) ([]workdir.Volume, error)   { return nil, nil }
func (f *fake) Rotate(wire.InstanceID)                     {}
func (f *fake) End(context.Context, wire.InstanceID) error { return nil }
func (f *fake) Do(context.Context, *wire.Order) *wire.VolumeReport {
	return &wire.VolumeReport{Done: true}
}
func (f *fake) OpenOrder(*wire.Order) (secrets.Values, error)    { return nil, nil }
func (f *fake) OpenAll(string, []string) (secrets.Values, error) { return nil, nil }
func (f *fake) Versions(string, []string) map[string]string      { return nil }

// fakePorts, fakeProber and fakeLogs have methods of the same names as others.
type fakePorts struct{}

func (fakePorts) Keep(wire.InstanceID, map[string]int) {}
func (fakePorts) Give(_ wire.InstanceID, service []api.Port, _ map[string]int) (map[string]int, error) {
	out := map[string]int{}
	for i := range service {
		out[state.PortName(&service[i])] = 25000 + i
	}
	return out, nil
}
func (fakePorts) Release(wire.InstanceID) {}

type fakeProber struct{}

func (fakeProber) Probe(context.Context, health.Check) error { return nil }

type fakeLogs struct{ *fake }

func (fakeLogs) Keep(wire.InstanceID, int) error { return nil }

type fakeTask struct {
	pid     int
	ends    chan wire.Exit
	mu      sync.Mutex
	signals []string
}

func (t *fakeTask) Handle() runtime.Handle { return runtime.Handle{PID: t.pid, Boot: "boot"} }
func (t *fakeTask) Usage() runtime.Usage   { return runtime.Usage{} }
func (t *fakeTask) Wait(ctx context.Context) (wire.Exit, error) {
	select {
	case e := <-t.ends:
		t.ends <- e
		return e, nil
	case <-ctx.Done():
		return wire.Exit{}, ctx.Err()
	}
}
func (t *fakeTask) Signal(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.signals = append(t.signals, name)
	t.ends <- wire.Exit{Code: 143, At: time.Now()}
	return nil
}
func (t *fakeTask) Exec(context.Context, runtime.Exec) (wire.Exit, error) {
	return wire.Exit{}, errors.New("none")
}
func (t *fakeTask) Kill(context.Context) error { return nil }
func (t *fakeTask) Cleanup() error             { return nil }

// supervised runs f with an instance that is supervised among fakes.
func supervised(t *testing.T, f func(x *fake, in *Instance)) {
	synctest.Test(t, func(t *testing.T) {
		x := &fake{wrong: map[string]error{}}
		d := &Deps{
			Dir: t.TempDir(), Boot: "boot", Uptime: func() time.Duration { return time.Minute },
			CannotMount: "it is a test",
			Drivers:     map[string]runtime.Driver{"process": x}, Devices: func() []engineapi.DeviceNode { return nil },
			Log:   slog.New(slog.DiscardHandler),
			Board: x, Problems: x, Router: x, Network: x, Ports: fakePorts{}, Objects: x, Secrets: x, Volumes: x,
			Logs: fakeLogs{x}, Orphans: x, Checks: Checks{Prober: fakeProber{}, Commands: make(chan struct{}, 1)},
			Restart: life.Restart,
			Changed: func() {}, Released: func() {}, Forgotten: func(*Instance) bool { return true },
			MakeRoom: func(context.Context) bool { return false }, Force: make(chan struct{}),
		}
		in := New(d, "shop.web.0", state.Record{}, false)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { in.Run(ctx) })
		f(x, in)
		cancel()
		wg.Wait()
		if len(x.wrong) > 0 {
			t.Errorf("problems: %v", x.wrong)
		}
	})
}

func (f *fake) phase(d time.Duration) (wire.Phase, bool) {
	time.Sleep(d) // of the bubble
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown.Phase, f.shown.Ready
}

// An instance is started when it is to run, again when it fails, and stopped when it is to
// stop; its record says so each time.
func TestASupervisorTakesTheSteps(t *testing.T) {
	supervised(t, func(x *fake, in *Instance) {
		o := enginetest.Order(0, 1, 100)
		o.Spec.Restart = api.Restart{Policy: "always"}
		in.SetGoal(plan.Goal{Kind: plan.Run, Order: o})
		if phase, ready := x.phase(time.Second); phase != wire.PhaseRunning || !ready || x.starts != 1 {
			t.Fatalf("%s, ready %t after %d starts", phase, ready, x.starts)
		}
		if s, err := in.Running(); err != nil || s.Ports["http"] != 25000 || in.Task() == nil {
			t.Errorf("%+v, %v", s, err)
		}
		x.task.ends <- wire.Exit{Code: 1, At: time.Now()}
		if phase, ready := x.phase(time.Minute); phase != wire.PhaseRunning || !ready || x.starts != 2 ||
			x.shown.Restarts != 1 {
			t.Errorf("after an exit: %s, ready %t after %d starts", phase, ready, x.starts)
		}
		in.SetGoal(plan.Goal{Kind: plan.Stop, Order: o})
		if phase, _ := x.phase(time.Second); phase != wire.PhaseStopped || len(x.task.signals) != 1 {
			t.Errorf("%s after the signals %v", phase, x.task.signals)
		}
		if rec, err := state.ReadRecord(in.Layout().Dir, in.ID); err != nil || rec.Phase != wire.PhaseStopped ||
			rec.Handle != nil {
			t.Errorf("its record: %+v, %v", rec, err)
		}
		var p *wire.Problem
		if _, err := in.Running(); !errors.As(err, &p) || p.Code != "not-running" {
			t.Errorf("a stopped instance: %v", err)
		}
	})
}

// What sleeps is started when it is woken, and waits no longer for who cannot have it.
func TestASupervisorWakesAndRefuses(t *testing.T) {
	supervised(t, func(x *fake, in *Instance) {
		o := enginetest.Order(0, 1, 100)
		o.Sleep = &wire.Sleep{Idle: api.Duration(time.Minute)}
		in.SetGoal(plan.Goal{Kind: plan.Sleep, Order: o})
		if phase, _ := x.phase(time.Second); phase != wire.PhasePending || !x.shown.Asleep || x.off != nil ||
			x.starts != 0 {
			t.Errorf("asleep: %+v", x.shown)
		}
		in.SetGoal(plan.Goal{Kind: plan.Refuse, Order: o, Why: "needs more", Full: true})
		if phase, _ := x.phase(time.Second); phase != wire.PhaseRefused || x.off == nil || !x.off.Full {
			t.Errorf("refused: %+v, %+v", x.shown, x.off)
		}
		in.SetGoal(plan.Goal{Kind: plan.Run, Order: o})
		if phase, ready := x.phase(time.Second); phase != wire.PhaseRunning || !ready || x.shown.StartUp == 0 &&
			x.shown.Asleep {
			t.Errorf("woken: %+v", x.shown)
		}
	})
}

// A user that cannot be had changes nothing of what is there: its files stay those of the user
// of before. A problem with it is over when it has one.
func TestAUserThatCannotBeHad(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: users of instances; needs root")
	}
	supervised(t, func(x *fake, in *Instance) {
		in.deps.Users = users.New(filepath.Join(in.deps.Dir, "claims"), filepath.Join(in.deps.Dir, state.InstancesDir))
		x.Set("user of "+in.ID, errors.New("of when it was adopted"))
		o := enginetest.Order(0, 1, 100)
		in.SetGoal(plan.Goal{Kind: plan.Run, Order: o})
		if phase, _ := x.phase(time.Second); phase != wire.PhaseRunning {
			t.Fatalf("%+v", x.shown)
		}
		if len(x.wrong) > 0 {
			t.Errorf("its problems are %v", x.wrong)
		}
		owner := func() uint32 {
			st, err := os.Stat(in.Layout().Work())
			if err != nil {
				t.Fatal(err)
			}
			return st.Sys().(*syscall.Stat_t).Uid
		}
		had := owner()
		if had < users.FirstUser {
			t.Fatalf("its files are of user %d", had)
		}
		in.SetGoal(plan.Goal{Kind: plan.Stop, Order: o})
		x.phase(time.Second)
		spec := *o.Spec
		spec.User, spec.Restart = "no-such-user", api.Restart{Policy: "never"}
		o.Spec, o.Revision = &spec, o.Revision+1
		in.SetGoal(plan.Goal{Kind: plan.Run, Order: o})
		if phase, _ := x.phase(time.Second); phase != wire.PhaseExited || x.starts != 1 ||
			!strings.Contains(x.shown.Why, "no-such-user") {
			t.Errorf("after %d starts: %+v", x.starts, x.shown)
		}
		if got := owner(); got != had {
			t.Errorf("its files are of user %d, want %d", got, had)
		}
	})
}
