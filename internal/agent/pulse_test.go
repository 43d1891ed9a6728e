package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/enginehost"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
)

// muteHands is an engine that can be stopped: it is there and does not answer.
type muteHands struct {
	*fakeEngine
	stopped chan struct{} // while it is not nil, until it is closed
}

func (m *muteHands) State(ctx context.Context, after uint64, wait time.Duration) (engineapi.EngineState, error) {
	m.mu.Lock()
	stopped := m.stopped
	m.mu.Unlock()
	if stopped != nil {
		select {
		case <-ctx.Done():
			return engineapi.EngineState{}, ctx.Err()
		case <-stopped:
		}
	}
	return m.fakeEngine.State(ctx, after, wait)
}

func TestAnEngineThatDoesNotAnswerIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &muteHands{fakeEngine: newFakeEngine("e1")}
		a := newTestAgent(h)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); a.watchPulse(ctx) }()
		defer func() { cancel(); <-done }()
		impaired := func() string {
			t.Helper()
			b, err := a.status(true)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			var info wire.WorkerInfo
			if err := json.Unmarshal(b, &info); err != nil {
				t.Fatal(err)
			}
			return info.Impaired
		}
		if got := impaired(); got != "" {
			t.Fatalf("while all is well it says %q", got)
		}
		stop := make(chan struct{})
		h.change(func() { h.stopped = stop })
		begin := time.Now()
		impaired() // asks
		<-a.changed
		if took := time.Since(begin); took > 4*time.Second {
			t.Errorf("it is said after %s", took)
		}
		if got := impaired(); got != errMute.Error() {
			t.Errorf("it says %q", got)
		}
		time.Sleep(time.Minute)
		if got := impaired(); got != errMute.Error() {
			t.Errorf("after a minute it says %q", got)
		}
		h.mu.Lock()
		h.stopped = nil
		h.mu.Unlock()
		close(stop)
		<-a.changed
		if got := impaired(); got != "" {
			t.Errorf("when it answers again it says %q", got)
		}
	})
}

// An engine that has ended is started again by whoever waits for its news; that is
// not what is meant by an engine that does not answer.
func TestAnEngineThatEndedIsNotMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newFakeEngine("e1")
		h.down = true
		a := newTestAgent(h)
		if !a.answers(t.Context()) {
			t.Error("a refused connection counts as an engine that does not answer")
		}
	})
}

// mutedDir is where the helper process listens.
const mutedDir = "VERGE_TEST_MUTED_DIR"

// listens is what the helper process says when it does.
const listens = "listens\n"

// TestMain is the helper of TestAMuteEngineIsEnded where it is told so: a process
// that listens as an engine does, and stops itself.
func TestMain(m *testing.M) {
	dir := os.Getenv(mutedDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := unixsock.Listen(filepath.Join(dir, engineapi.EngineSocket)); err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(listens)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	// Another thread may be the one by which the signal stops the process, and this one
	// goes on until then: it must not end what is to be found mute.
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func TestAMuteEngineIsEnded(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), mutedDir+"="+dir)
	in, err := cmd.StdinPipe() // so that the helper does not outlive this process
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := io.ReadFull(out, make([]byte, len(listens))); err != nil {
		t.Fatal("it never listens:", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	k := enginehost.New(dir, slog.New(slog.DiscardHandler))
	remote := engineclient.NewRemote(dir)
	defer remote.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if mute, err := enginehost.Ask(ctx, remote); !mute {
		t.Fatal("it is not found mute:", err)
	}
	if err := k.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Errorf("it ended with %v", err)
	}
	if running, err := k.Running(ctx, remote); running || err != nil {
		t.Errorf("running %v, %v", running, err)
	}
}

// What instances write while there is no engine is read by the agent, so that none has to
// wait for it; and no more once an engine answers.
func TestTheAgentReadsLogsWhileThereIsNoEngine(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "instances", "shop.web.0", "log")
	if err := os.MkdirAll(log, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := logfile.OpenPipe(log)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	k := enginehost.New(dir, slog.New(slog.DiscardHandler))
	remote := engineclient.NewRemote(dir)
	defer remote.Close()
	if running, err := k.Running(t.Context(), remote); running || err != nil {
		t.Fatalf("running %v, %v", running, err)
	}
	defer k.StandDown()
	// More than the pipe holds: without a reader this would wait for ever.
	text := strings.Repeat("a line of it\n", 1<<16)
	if _, err := program.WriteString(text); err != nil {
		t.Fatal(err)
	}
	// What an engine has started before it stopped answering is read as well.
	later := filepath.Join(dir, "instances", "shop.web.1", "log")
	if err := os.MkdirAll(later, 0o700); err != nil {
		t.Fatal(err)
	}
	next, err := logfile.OpenPipe(later)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if running, err := k.Running(t.Context(), remote); running || err != nil {
		t.Fatalf("running %v, %v", running, err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := next.WriteString(text)
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a program that was started later waits for a reader")
	}
	k.StandDown()
	if n, err := logfile.End(log); err != nil || n < int64(len(text)-1<<20) {
		t.Errorf("%d of %d bytes are in the log, %v", n, len(text), err)
	}
}
