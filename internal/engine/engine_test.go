package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/logs"
	"github.com/verge-edge/verge/internal/engine/server"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const web0 = "shop.web.0"

// inBubble runs a test with its own clock.
func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start()
		defer func() { r.stop() }()
		test(t, r)
	})
}

func TestStartToReady(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.prober.set(errors.New("refused"))
		r.apply(order(0, 1, 100))
		s := r.status(web0)
		if s.Phase != wire.PhaseRunning || s.Ready || s.PID == 0 || s.Restarts != 0 || s.Incarnation != 1 {
			t.Fatalf("after the start: %+v", s)
		}
		if _, err := r.e.Target(web0, "http"); !errors.Is(err, proxy.ErrNotReady) {
			t.Errorf("target before ready: %v", err)
		}
		changes, _ := r.router.seen()
		r.prober.set(nil)
		after(time.Second)
		if s = r.status(web0); !s.Ready {
			t.Fatalf("not ready: %+v", s)
		}
		if now, _ := r.router.seen(); now == changes {
			t.Error("the router was not told")
		}
		addr, err := r.e.Target(web0, "http")
		if err != nil || !strings.HasPrefix(addr, "127.0.0.1:") {
			t.Errorf("target %q, %v", addr, err)
		}
		if _, err := r.e.Target("shop.web.9", "http"); !errors.Is(err, proxy.ErrNoInstance) {
			t.Errorf("target of a stranger: %v", err)
		}
		env := r.driver.last().Env
		for _, want := range []string{"VERGE_INSTANCE=shop.web.0", "VERGE_WORKER=w1", "VERGE_CLUSTER=edge",
			"PATH=/bin:/usr/bin", "PORT=" + addr[len("127.0.0.1:"):]} {
			if !slices.Contains(env, want) {
				t.Errorf("environment lacks %s", want)
			}
		}
		// The same orders again change nothing.
		before, _ := r.e.State(context.Background(), 0, 0)
		r.apply(order(0, 1, 100))
		if now, _ := r.e.State(context.Background(), 0, 0); now.Seq != before.Seq || r.driver.starts(web0) != 1 {
			t.Errorf("orders that change nothing: %d starts, seq %d → %d", r.driver.starts(web0), before.Seq, now.Seq)
		}
	})
}

func TestReadinessComesAndGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		o.Spec.Readiness = &api.Check{HTTP: &api.HTTPCheck{Path: "/ok"}, Interval: api.Duration(time.Second),
			Failures: 3}
		r.apply(o)
		after(10 * time.Second)
		if !r.status(web0).Ready {
			t.Fatal("not ready")
		}
		before := r.prober.count()
		after(10 * time.Second)
		if n := r.prober.count() - before; n != 10 {
			t.Errorf("%d probes in 10 s, want one a second", n)
		}
		r.prober.set(errors.New("status 500"))
		after(2500 * time.Millisecond)
		if !r.status(web0).Ready {
			t.Error("unready before three failures")
		}
		after(time.Second)
		if s := r.status(web0); s.Ready || !strings.Contains(s.Why, "status 500") || s.Phase != wire.PhaseRunning {
			t.Errorf("after three failures: %+v", s)
		}
		r.prober.set(nil)
		after(time.Second)
		if s := r.status(web0); !s.Ready || s.Why != "" {
			t.Errorf("not back: %+v", s)
		}
		if r.driver.starts(web0) != 1 {
			t.Error("it was restarted")
		}
	})
}

func TestNoPortsIsReadyAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		o.Spec.Ports = nil
		r.apply(o)
		if !r.status(web0).Ready || r.prober.count() != 0 {
			t.Errorf("%+v after %d probes", r.status(web0), r.prober.count())
		}
	})
}

func TestRestartsWithBackOffThenGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 600)
		most := 2
		o.Spec.Restart.MaxRestarts = &most
		r.apply(o, order(1, 1, 600))
		if s := r.status("shop.web.1"); s.Phase != wire.PhaseRefused ||
			!strings.Contains(s.Why, "needs 600m cpu, 400m of 1 free") {
			t.Errorf("admitted beyond capacity: %+v", s)
		}
		port := r.status(web0).Ports["http"]

		r.one(web0).end(7)
		synctest.Wait()
		s := r.status(web0)
		if s.Phase != wire.PhasePending || s.LastExit == nil || s.LastExit.Code != 7 || s.Ready ||
			s.Cause != wire.CauseExited || !strings.Contains(s.Why, "restart 1 of 2") {
			t.Fatalf("after the first exit: %+v", s)
		}
		rec, err := state.ReadRecord(filepath.Join(r.dir, state.InstancesDir, web0), web0)
		if err != nil || rec.LastExit == nil || rec.LastExit.Code != 7 || rec.Handle != nil {
			t.Errorf("on disk: %+v, %v", rec, err)
		}
		after(time.Second)
		if s = r.status(web0); s.Phase != wire.PhaseRunning || s.Restarts != 1 || s.Ports["http"] != port || s.Cause != "" {
			t.Fatalf("after the restart: %+v (port was %d)", s, port)
		}
		r.one(web0).end(7)
		after(time.Second)
		r.one(web0).end(9)
		after(time.Minute)
		s = r.status(web0)
		if s.Phase != wire.PhaseExited || s.LastExit.Code != 9 || s.LastExit.Attempt != 2 || s.Restarts != 2 {
			t.Errorf("not given up: %+v", s)
		}
		if n := r.driver.starts(web0); n != 3 {
			t.Errorf("%d starts, want 3", n)
		}
		// Its room is free for the other.
		if s := r.status("shop.web.1"); s.Phase != wire.PhaseRunning {
			t.Errorf("the refused one did not get the room: %+v", s)
		}
		// It stays ended for its successor engine, too.
		r.stop()
		r.start()
		if s := r.status(web0); s.Phase != wire.PhaseExited || r.driver.starts(web0) != 3 {
			t.Errorf("after an engine's restart: %+v", s)
		}
	})
}

func TestNeverRestarts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		o.Spec.Restart.Policy = "never"
		r.apply(o)
		r.one(web0).end(0)
		after(time.Hour)
		if s := r.status(web0); s.Phase != wire.PhaseExited || s.LastExit.Code != 0 || r.driver.starts(web0) != 1 {
			t.Errorf("%+v after %d starts", s, r.driver.starts(web0))
		}
	})
}

func TestFailedStartCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.driver.setFail(errors.New("command not found: web"))
		r.apply(order(0, 1, 100))
		if s := r.status(web0); s.Phase != wire.PhasePending || !strings.Contains(s.Why, "command not found: web") ||
			!strings.Contains(s.Why, "trying again in") {
			t.Errorf("%+v", s)
		}
		after(time.Hour)
		if s := r.status(web0); s.Phase != wire.PhaseExited || s.LastExit != nil ||
			!strings.Contains(s.Why, "gave up") {
			t.Errorf("%+v", s)
		}
		if n := r.driver.starts(web0); n != 1+api.DefaultMaxRestarts {
			t.Errorf("%d attempts", n)
		}
		// A variable that does not exist fails before any driver is asked.
		o := order(0, 2, 100)
		o.Spec.Args = []string{"${NOWHERE}"}
		r.apply(o)
		if s := r.status(web0); !strings.Contains(s.Why, "args[0]") || !strings.Contains(s.Why, "NOWHERE") ||
			s.Incarnation != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDrainThenSignalThenKill(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		o.Spec.Stop = api.Stop{Signal: "INT", Grace: api.Duration(5 * time.Second)}
		r.apply(o)
		after(time.Second)
		task := r.one(web0)
		task.ignoreSignals()
		idle := r.router.setBusy(web0)
		o.Stop = true
		r.apply(o)
		after(2 * time.Second)
		if s := r.status(web0); !s.Draining || s.Ready || s.Phase != wire.PhaseRunning {
			t.Errorf("not draining: %+v", s)
		}
		if _, err := r.e.Target(web0, "http"); !errors.Is(err, proxy.ErrDraining) {
			t.Errorf("target: %v", err)
		}
		if sig, _, _ := task.seen(); len(sig) != 0 {
			t.Errorf("signals %v while it has connections", sig)
		}
		idle()
		synctest.Wait()
		if sig, killed, _ := task.seen(); !slices.Equal(sig, []string{"INT"}) || killed {
			t.Errorf("signals %v, killed %v", sig, killed)
		}
		after(2900 * time.Millisecond)
		if _, killed, _ := task.seen(); killed {
			t.Error("killed before the grace was over")
		}
		after(200 * time.Millisecond)
		if _, killed, cleaned := task.seen(); !killed || cleaned != 1 {
			t.Errorf("killed %v, cleaned up %d times", killed, cleaned)
		}
		s := r.status(web0)
		if s.Phase != wire.PhaseStopped || s.Draining || s.LastExit == nil || s.LastExit.Code != 137 {
			t.Errorf("%+v", s)
		}
		// Kept until the order is gone, over a restart of the engine.
		r.stop()
		r.start()
		if s := r.status(web0); s.Phase != wire.PhaseStopped || s.LastExit == nil {
			t.Errorf("after a restart: %+v", s)
		}
		before, _ := r.e.State(context.Background(), 0, 0)
		r.apply()
		now, err := r.e.State(context.Background(), before.Seq, 0)
		if err != nil || !slices.Equal(now.Gone, []string{web0}) {
			t.Errorf("%+v, %v", now, err)
		}
		if _, err := os.Stat(filepath.Join(r.dir, state.InstancesDir, web0)); !os.IsNotExist(err) {
			t.Errorf("files left: %v", err)
		}
	})
}

func TestConnectionsThatNeverEndDoNotHoldUpAStop(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		o.Spec.Stop.Grace = api.Duration(3 * time.Second)
		r.apply(o)
		task := r.one(web0)
		task.ignoreSignals()
		defer r.router.setBusy(web0)()
		r.apply()
		after(3100 * time.Millisecond)
		if sig, killed, _ := task.seen(); !slices.Equal(sig, []string{"TERM"}) || killed {
			t.Errorf("signals %v, killed %v: it must have a second after its signal", sig, killed)
		}
		after(time.Second)
		if len(r.driver.live(web0)) != 0 {
			t.Error("still there")
		}
	})
}

func TestNewIncarnationReplaces(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		r.one(web0).end(3)
		after(time.Second)
		old := r.one(web0)
		r.apply(order(0, 2, 200))
		if len(r.driver.live(web0)) != 1 || !old.over() {
			t.Fatal("the old one must be gone and one new one be there")
		}
		s := r.status(web0)
		if s.Incarnation != 2 || s.Restarts != 0 || s.Phase != wire.PhaseRunning || s.LastExit != nil {
			t.Errorf("%+v", s)
		}
		if sig, _, _ := old.seen(); !slices.Equal(sig, []string{"TERM"}) {
			t.Errorf("signals %v", sig)
		}
		// One that is too large is refused, and the one that runs makes way.
		r.apply(order(0, 3, 2000))
		if s := r.status(web0); s.Phase != wire.PhaseRefused || s.Incarnation != 3 || len(r.driver.live(web0)) != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// An application of the same name in another namespace is another: even if it looks
// the same, it is started anew and finds nothing of the other.
func TestAnotherNamespaceFindsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		old := r.one(web0)
		for _, dir := range []string{"work", "log"} {
			if err := os.WriteFile(filepath.Join(r.dir, state.InstancesDir, web0, dir, "left"), []byte("private"),
				0o600); err != nil {
				t.Fatal(err)
			}
		}
		theirs := order(0, 1, 100)
		theirs.Namespace = "theirs"
		r.apply(theirs)
		if len(r.driver.live(web0)) != 1 || !old.over() {
			t.Fatal("the old one must be gone and one new one be there")
		}
		for _, dir := range []string{"work", "log"} {
			if _, err := os.Stat(filepath.Join(r.dir, state.InstancesDir, web0, dir, "left")); !errors.Is(err,
				os.ErrNotExist) {
				t.Errorf("%s: %v", dir, err)
			}
		}
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Incarnation != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestShutdownStopsAllAndKeepsOrders(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100), order(1, 1, 100))
		task := r.one(web0)
		task.ignoreSignals()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		began := time.Now()
		if err := r.e.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %v: what does not end is killed when patience is over", took)
		}
		if len(r.driver.live(web0))+len(r.driver.live("shop.web.1")) != 0 {
			t.Error("something still runs")
		}
		r.stop()
		if err := r.e.Apply(context.Background(), engineapi.EngineOrders{V: wire.Version}); !errors.Is(err,
			state.ErrStopped) {
			t.Errorf("apply to an engine that ended: %v", err)
		}
		r.start()
		if s := r.status(web0); s.Phase != wire.PhaseRunning {
			t.Errorf("the next engine did not start it again: %+v", s)
		}
	})
}

func TestRouterPortTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.router.fail = 2
		r.start()
		defer func() { r.stop() }()
		r.apply(order(0, 1, 100))
		if s := r.status(web0); s.Phase != wire.PhaseRunning {
			t.Errorf("instances must run without a gateway: %+v", s)
		}
		if p := r.problems(); !strings.HasPrefix(p, "gateway 127.0.0.1:1 is taken: ") ||
			!strings.Contains(p, "another --gateway") {
			t.Errorf("problems: %q", p)
		}
		// What could be opened is told at once, the rest when it is open, and in
		// between there is no news for the agent.
		first, _ := r.e.State(context.Background(), 0, 0)
		if i := first.Info; i.DataAddr != "127.0.0.1:8474" || i.GatewayAddr != "" {
			t.Errorf("data address %q, gateway %q", i.DataAddr, i.GatewayAddr)
		}
		after(firstReopen)
		if s, _ := r.e.State(context.Background(), 0, 0); s.Seq != first.Seq {
			t.Errorf("a try that failed like the one before is news")
		}
		after(10 * time.Second)
		if p := r.problems(); p != "" {
			t.Errorf("problems: %q", p)
		}
		if s, _ := r.e.State(context.Background(), 0, 0); s.Info.GatewayAddr != "127.0.0.1:1" {
			t.Errorf("gateway %q", s.Info.GatewayAddr)
		}
	})
}

func TestEntriesAreShown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		w := httptest.NewRecorder()
		server.New(r.e, r.e.log).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/entries", nil))
		var got []rpc.EntryView
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := []rpc.EntryView{
			{App: "shop", Service: "web", Port: "http", Addr: "127.0.0.1:20001"},
			{App: "shop", Service: "db", Port: "tcp", Addr: "127.0.0.1:20002", Problem: "taken"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestBadOrdersChangeNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		evil := order(0, 1, 100)
		evil.ID = "../../etc"
		twice := []wire.Order{order(1, 1, 100), order(1, 2, 100)}
		for _, bad := range []engineapi.EngineOrders{
			{V: 99},
			{V: wire.Version, Orders: []wire.Order{evil}},
			{V: wire.Version, Orders: twice},
		} {
			if err := r.e.Apply(context.Background(), bad); !errors.Is(err, state.ErrBadOrders) {
				t.Errorf("got %v", err)
			}
		}
		if s := r.status(web0); s.Phase != wire.PhaseRunning {
			t.Errorf("%+v", s)
		}
	})
}

func TestStateWaitsForAChange(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		after(time.Second)
		now, err := r.e.State(context.Background(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if s, err := r.e.State(context.Background(), now.Seq, 3*time.Second); err != nil || len(s.Changed) != 0 ||
			time.Since(began) != 3*time.Second {
			t.Errorf("%+v, %v after %v", s, err, time.Since(began))
		}
		got := make(chan engineapi.EngineState)
		go func() {
			s, err := r.e.State(context.Background(), now.Seq, time.Minute)
			if err != nil {
				t.Error(err)
			}
			got <- s
		}()
		synctest.Wait()
		r.one(web0).end(1)
		if s := <-got; len(s.Changed) != 1 || s.Changed[0].LastExit == nil {
			t.Errorf("%+v", s)
		}
	})
}

func TestStopThatIsTakenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		r.apply(o)
		r.one(web0).end(1)
		after(time.Second)
		o.Stop = true
		r.apply(o)
		if s := r.status(web0); s.Phase != wire.PhaseStopped || s.Restarts != 1 {
			t.Fatalf("%+v", s)
		}
		o.Stop = false
		r.apply(o)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Restarts != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestLogsAreRotatedAndRead(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		dir := state.At(r.dir, web0).Log()
		c, err := r.e.Logs(context.Background(), web0, rpc.LogAsk{Wait: 300 * time.Millisecond})
		if err != nil || len(c.Data) != 0 {
			t.Errorf("an empty log: %+v, %v", c, err)
		}
		const line = "the quick brown fox jumps over it\n"
		text := strings.Repeat(line, 5<<20/len(line))
		if err := os.WriteFile(filepath.Join(dir, "output.log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		after(2 * logs.RotateEvery)
		names, err := os.ReadDir(dir)
		if err != nil || len(names) < 2 {
			t.Errorf("not rotated: %v, %v", names, err)
		}
		var read int64
		for {
			c, err := r.e.Logs(context.Background(), web0, rpc.LogAsk{Offset: read, Max: 1 << 30})
			if err != nil || len(c.Data) > logs.MaxLog || c.Lost != 0 {
				t.Fatalf("%d bytes, %d lost, %v", len(c.Data), c.Lost, err)
			}
			if len(c.Data) == 0 {
				break
			}
			read = c.Next
		}
		if read != int64(len(text)) {
			t.Errorf("read %d of %d bytes", read, len(text))
		}
		if _, err := r.e.Logs(context.Background(), "shop.web.8", rpc.LogAsk{}); !errors.Is(err, state.ErrNoInstance) {
			t.Errorf("log of a stranger: %v", err)
		}
	})
}

// What a process wrote before it ended is bounded at once: the clock may never
// see it running.
func TestTheLogOfAnEndedProcessIsRotated(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := order(0, 1, 100)
		r.apply(o)
		dir := state.At(r.dir, web0).Log()
		if err := os.WriteFile(filepath.Join(dir, "output.log"), []byte(strings.Repeat("a line of it\n", 1<<19)),
			0o600); err != nil {
			t.Fatal(err)
		}
		o.Stop = true
		r.apply(o)
		if s := r.status(web0); s.Phase != wire.PhaseStopped {
			t.Fatalf("%+v", s)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) < 2 {
			t.Errorf("not rotated: %v, %v", names, err)
		}
	})
}
