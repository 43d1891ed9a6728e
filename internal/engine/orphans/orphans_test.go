package orphans

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// What sessions have left is found without touching the instances.
func TestOrphansEndsSessions(t *testing.T) {
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
	s := Processes{Engine: mark}
	t.Cleanup(func() {
		if err := s.End(context.Background(), "a.b.0"); err != nil {
			t.Error(err)
		}
		<-instance
	})
	if err := s.EndExec(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	<-one
	left := func() (n int) {
		found, err := s.Find(false)
		if err != nil {
			t.Fatal(err)
		}
		return len(found["a.b.0"])
	}
	if n := left(); n != 2 {
		t.Errorf("%d are left, want 2", n)
	}
	if found, err := s.Find(true); err != nil || len(found["a.b.0"]) != 1 {
		t.Errorf("at a start of the engine: %v, %v", found, err)
	}
	<-two
	if n := left(); n != 1 {
		t.Errorf("%d are left, want the instance alone", n)
	}
}

func TestOrphansEndsOnlyItsOwn(t *testing.T) {
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
	s := Processes{Engine: mark}
	t.Cleanup(func() {
		for _, id := range []string{"a.b.0", "a.b.1"} {
			if err := errors.Join(s.End(context.Background(), id),
				Processes{Engine: "not" + mark}.End(context.Background(), id)); err != nil {
				t.Error(err)
			}
		}
		_, _ = other.Process.Wait()
		_, _ = foreign.Process.Wait()
	})
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for {
		found, err := s.Find(false)
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
	if err := s.End(context.Background(), "a.b.0"); err != nil {
		t.Fatal(err)
	}
	if st, err := mine.Process.Wait(); err != nil || st.String() != "signal: killed" {
		t.Errorf("%v, %v", st, err)
	}
	found, err := s.Find(false)
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
		if found, err = s.Find(false); err != nil {
			t.Fatal(err)
		}
	}
	if found, err = s.Find(true); err != nil || len(found["a.b.1"]) != 2 {
		t.Errorf("left %v, %v", found, err)
	}
	if st, err := command.Process.Wait(); err != nil || st.String() != "signal: killed" {
		t.Errorf("the command: %v, %v", st, err)
	}
	if ended, err := syscall.Wait4(foreign.Process.Pid, nil, syscall.WNOHANG, nil); ended != 0 || err != nil {
		t.Error("another engine's process was killed")
	}
}
