package engine

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	o := order(3, 1, 100)
	o.Spec.Command = []string{"front", "--listen=:${PORT_ADMIN_UI}"}
	o.Spec.Args = []string{"--store", "${VERGE_STORE_ADDR}", "$$HOME", "${MODE}"}
	o.Spec.Env = map[string]string{"MODE": "on ${VERGE_WORKER}", "PATH": "/opt/bin:${PATH}"}
	o.Spec.Ports = []api.Port{{Protocol: "http"}, {Name: "admin-ui"}}
	o.Peers = map[string][]api.Port{
		"store":   {{Name: "redis"}, {Name: "stats"}},
		"store-a": {{Name: "x"}}, "idle": nil,
		"s": {{Name: "first"}, {Name: "a"}}, "s-a": {{Name: "y"}},
	}
	around := surroundings{
		path: "/usr/bin", cluster: "edge", worker: "w1", engine: "mark", listen: "127.0.0.1", work: "/w", tmp: "/t",
		ports: map[string]int{"http": 25001, "admin-ui": 25002},
		addrs: map[string]map[string]string{
			"store":   {"redis": "127.0.0.1:20001", "stats": "127.0.0.1:20002"},
			"store-a": {"x": "127.0.0.1:20003"},
			"s":       {"first": "127.0.0.1:20004", "a": "127.0.0.1:20005"}, "s-a": {"y": "127.0.0.1:20006"},
		},
	}
	argv, vars, err := resolve(&o, around)
	if err != nil {
		t.Fatal(err)
	}
	env := environ(vars)
	if want := []string{"front", "--listen=:25002", "--store", "127.0.0.1:20001", "$HOME", "on w1"}; !slices.Equal(argv, want) {
		t.Errorf("got %q\nwant %q", argv, want)
	}
	for _, want := range []string{
		"PORT=25001", "PORT_HTTP=25001", "PORT_ADMIN_UI=25002", "PATH=/opt/bin:/usr/bin", "HOME=/w", "TMPDIR=/t",
		"VERGE_APP=shop", "VERGE_SERVICE=web", "VERGE_INSTANCE=shop.web.3", "VERGE_ORDINAL=3",
		"VERGE_WORKER=w1", "VERGE_CLUSTER=edge", "VERGE_LISTEN=127.0.0.1", "VERGE_ENGINE=mark",
		"VERGE_STORE_ADDR=127.0.0.1:20001", "VERGE_STORE_REDIS_ADDR=127.0.0.1:20001", "VERGE_STORE_STATS_ADDR=127.0.0.1:20002",
		"VERGE_S_A_ADDR=127.0.0.1:20006", // the service s-a, not the port a of s
	} {
		if !slices.Contains(env, want) {
			t.Errorf("environment lacks %s:\n%s", want, strings.Join(env, "\n"))
		}
	}
	for name, change := range map[string]func(*api.Service){
		"VERGE_INSTANCE": func(s *api.Service) { s.Env = map[string]string{"VERGE_INSTANCE": "a.b.0"} },
		"${GONE}":        func(s *api.Service) { s.Args = []string{"${GONE}"} },
		"empty":          func(s *api.Service) { s.Command = []string{"${EMPTY}"}; s.Env = map[string]string{"EMPTY": ""} },
	} {
		bad := order(0, 1, 100)
		change(bad.Spec)
		if _, _, err := resolve(&bad, around); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	busy := map[int]bool{}
	p := newPortPool("seed", func(n int) bool { return !busy[n] })
	service := []api.Port{{Name: "a"}, {Name: "b"}}
	one, err := p.give("x.y.0", service, nil)
	if err != nil || len(one) != 2 || one["a"] == one["b"] {
		t.Fatalf("%v, %v", one, err)
	}
	for _, n := range one {
		if n < firstPort || n > lastPort {
			t.Errorf("port %d", n)
		}
	}
	// Again: the same; but what somebody else took meanwhile is exchanged.
	busy[one["b"]] = true
	again, err := p.give("x.y.0", service, one)
	if err != nil || again["a"] != one["a"] || again["b"] == one["b"] {
		t.Errorf("was %v, is %v, %v", one, again, err)
	}
	// No two instances share one, even if both would prefer it.
	other, err := p.give("x.y.1", service, again)
	if err != nil || other["a"] == again["a"] || other["b"] == again["b"] {
		t.Errorf("%v and %v, %v", again, other, err)
	}
	p.release("x.y.0")
	if got, _ := p.give("x.y.2", service, again); got["a"] != again["a"] {
		t.Errorf("a released port is not given again: %v", got)
	}
	full := newPortPool("seed", func(int) bool { return false })
	if _, err := full.give("x.y.0", service, nil); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Errorf("none free: %v", err)
	}
}

func TestPortNumbers(t *testing.T) {
	t.Parallel()
	busy := map[int]bool{8080: true}
	p := newPortPool("seed", func(n int) bool { return !busy[n] })
	service := []api.Port{{Name: "a", Number: 6379}, {Name: "b"}}
	one, err := p.give("x.y.0", service, nil)
	if err != nil || one["a"] != 6379 || one["b"] < firstPort {
		t.Fatalf("%v, %v", one, err)
	}
	if again, err := p.give("x.y.0", service, one); err != nil || again["a"] != 6379 {
		t.Errorf("again: %v, %v", again, err)
	}
	if _, err := p.give("x.y.1", service, nil); err == nil || !strings.Contains(err.Error(), "that of x.y.0") {
		t.Errorf("another's: %v", err)
	}
	if _, err := p.give("x.z.0", []api.Port{{Number: 8080}}, nil); err == nil || !strings.Contains(err.Error(), "taken on this machine") {
		t.Errorf("taken: %v", err)
	}
	p.release("x.y.0")
	if got, err := p.give("x.y.1", service, nil); err != nil || got["a"] != 6379 {
		t.Errorf("released: %v, %v", got, err)
	}
	// In the service network each has it.
	if got := ownPorts(service); got["a"] != 6379 || got["b"] != 8001 {
		t.Errorf("own: %v", got)
	}
}

func TestBindable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if bindable(l.Addr().(*net.TCPAddr).Port) {
		t.Error("a port that is listened on is called free")
	}
}

// What sessions have left is found without touching the instances.
func TestStraysEndsSessions(t *testing.T) {
	t.Parallel()
	mark := wire.NewID()
	spawn := func(session string) <-chan struct{} {
		cmd := exec.Command("sleep", "600")
		cmd.Env = []string{state.EnvEngine + "=" + mark, state.EnvInstance + "=a.b.0"}
		if session != "" {
			cmd.Env = append(cmd.Env, state.EnvExec+"="+session)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			_ = cmd.Wait() // it is killed
		}()
		return over
	}
	one, two, instance := spawn("one"), spawn("two"), spawn("")
	s := strays{engine: mark}
	t.Cleanup(func() {
		if err := s.end(context.Background(), "a.b.0"); err != nil {
			t.Error(err)
		}
		<-instance
	})
	if err := s.endExec(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	<-one
	left := func() (n int) {
		found, err := s.find(false)
		if err != nil {
			t.Fatal(err)
		}
		return len(found["a.b.0"])
	}
	if n := left(); n != 2 {
		t.Errorf("%d are left, want 2", n)
	}
	if found, err := s.find(true); err != nil || len(found["a.b.0"]) != 1 {
		t.Errorf("at a start of the engine: %v, %v", found, err)
	}
	<-two
	if n := left(); n != 1 {
		t.Errorf("%d are left, want the instance alone", n)
	}
}

func TestStraysEndsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	mark := wire.NewID()
	spawn := func(engine, id string) *exec.Cmd {
		// A child of its own, as an instance may have.
		cmd := exec.Command("sh", "-c", "sleep 600 & wait")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), state.EnvEngine + "=" + engine, state.EnvInstance + "=" + id}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	mine, other, foreign := spawn(mark, "a.b.0"), spawn(mark, "a.b.1"), spawn("not"+mark, "a.b.0")
	s := strays{engine: mark}
	t.Cleanup(func() {
		for _, id := range []string{"a.b.0", "a.b.1"} {
			if err := errors.Join(s.end(context.Background(), id), strays{engine: "not" + mark}.end(context.Background(), id)); err != nil {
				t.Error(err)
			}
		}
		_, _ = other.Process.Wait()
		_, _ = foreign.Process.Wait()
	})
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		found, err := s.find(false)
		if err != nil {
			t.Fatal(err)
		}
		if len(found["a.b.0"]) == 2 && len(found["a.b.1"]) == 2 {
			break
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("found %v", found)
		}
	}
	if err := s.end(context.Background(), "a.b.0"); err != nil {
		t.Fatal(err)
	}
	if st, err := mine.Process.Wait(); err != nil || st.String() != "signal: killed" {
		t.Errorf("%v, %v", st, err)
	}
	found, err := s.find(false)
	if err != nil || len(found["a.b.0"]) != 0 || len(found["a.b.1"]) != 2 {
		t.Errorf("left %v, %v", found, err)
	}
	// A command that ran beside an instance has no place after its engine's death.
	command := exec.Command("sleep", "600")
	command.Env = append(slices.Clone(other.Env), state.EnvExec+"=1")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for len(found["a.b.1"]) != 3 {
		if found, err = s.find(false); err != nil {
			t.Fatal(err)
		}
	}
	if found, err = s.find(true); err != nil || len(found["a.b.1"]) != 2 {
		t.Errorf("left %v, %v", found, err)
	}
	if st, err := command.Process.Wait(); err != nil || st.String() != "signal: killed" {
		t.Errorf("the command: %v, %v", st, err)
	}
	if !alive(foreign.Process.Pid) {
		t.Error("another engine's process was killed")
	}
}

// A moment that passes between the look at it and the wait for it is over; waiting for it
// would never end.
func TestPauseUntilAMomentThatHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &instance{wake: make(chan struct{}, 1)}
		for _, d := range []time.Duration{-time.Hour, -1, 0, time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			in.pause(ctx, d)
			if ctx.Err() != nil {
				t.Errorf("a pause of %s has no end", d)
			}
			cancel()
		}
	})
}
