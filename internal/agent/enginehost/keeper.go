package enginehost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/engineconfig"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/unixsock"
)

const (
	// AnswerWithin is how long one answer may take. It is a millisecond where all is
	// well, and more on a board that swaps.
	AnswerWithin = 1500 * time.Millisecond
	// KillAfter is after how many questions in a row without an answer an engine is ended. It
	// is no span of time: an agent that did not run itself must not blame its engine for it.
	KillAfter = 20
	// startTimeout with an engine that has been started and does not answer yet.
	startTimeout = 10 * time.Second
	// goneWithin is how long an engine that is killed may take to be gone: the kernel
	// takes its memory first, and waits for the disk where a thread of it does.
	goneWithin = 15 * time.Second
)

// Keeper starts an engine process and does so again when it has died. An engine
// outlives its agent: the next agent finds it by its socket.
type Keeper struct {
	dir  string
	log  *slog.Logger
	dead chan struct{} // a value when the engine that this process started has ended
	pid  atomic.Int64  // of the engine that this process started and that has not ended, 0 none

	mu    sync.Mutex
	stood *logfile.Collector // reads logs in place of the engine; nil while that does; guarded by mu
}

// New keeps the engine of a directory. It starts nothing yet.
func New(dir string, log *slog.Logger) *Keeper {
	return &Keeper{dir: dir, log: log, dead: make(chan struct{}, 1)}
}

// PID is the number of the engine process that this process started and that has not ended, 0
// if there is none.
func (k *Keeper) PID() int64 { return k.pid.Load() }

// StandIn reads what instances write while the engine does not, so that none of them has to
// wait for it. An engine that has begun to read again meanwhile is no harm. It is called again
// as long as no engine answers: one that does not may have started programs.
func (k *Keeper) StandIn() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stood == nil {
		k.stood = logfile.NewCollector(k.log)
	}
	k.stood.CollectAll(filepath.Join(k.dir, engineapi.InstanceLogs))
}

// StandDown leaves that to the engine again.
func (k *Keeper) StandDown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stood != nil {
		k.stood.Close()
		k.stood = nil
	}
}

// Ask asks an engine whether it is there. mute: its process is, and does not
// answer.
func Ask(ctx context.Context, client *engineclient.Remote) (mute bool, err error) {
	within, cancel := context.WithTimeout(ctx, AnswerWithin)
	defer cancel()
	_, err = client.State(within, 0, 0)
	return err != nil && within.Err() != nil, err
}

// Running says whether an engine answers. One that is there and does not answer is
// ended after a while: as long as it holds the directory there can be no other.
func (k *Keeper) Running(ctx context.Context, client *engineclient.Remote) (bool, error) {
	for missed := 0; ctx.Err() == nil; {
		mute, err := Ask(ctx, client)
		if err == nil {
			k.StandDown()
			return true, nil
		}
		k.StandIn()
		if !mute {
			return false, nil
		}
		if missed++; missed == KillAfter {
			k.log.Error("an engine is there and has not answered for too long: it is ended")
			return false, k.Kill(ctx)
		}
	}
	return false, ctx.Err()
}

// Ensure returns when an engine answers, starting one if need be.
func (k *Keeper) Ensure(ctx context.Context, client *engineclient.Remote) error {
	if running, err := k.Running(ctx, client); running || err != nil {
		return err
	}
	deadline := time.Now().Add(startTimeout)
	if err := k.start(); err != nil {
		return err
	}
	for {
		_, err := Ask(ctx, client)
		switch {
		case err == nil:
			k.StandDown()
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the engine was started but does not answer, see %s: %w",
				filepath.Join(k.dir, engineapi.EngineLog), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.dead:
			return fmt.Errorf("the engine ended at its start, see %s", filepath.Join(k.dir, engineapi.EngineLog))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill ends the process that listens on the engine's socket, whether this process
// started it or not.
func (k *Keeper) Kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goneWithin)
	defer cancel()
	pid, err := unixsock.Listener(ctx, filepath.Join(k.dir, engineapi.EngineSocket))
	if err != nil {
		return fmt.Errorf("finding the engine's process: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending the engine, process %d: %w", pid, err)
	}
	// It is gone when nobody can be connected to any more.
	for ctx.Err() == nil {
		if other, err := unixsock.Listener(ctx, filepath.Join(k.dir, engineapi.EngineSocket)); err != nil || other != pid {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("the engine, process %d, does not end", pid)
}

// start starts an engine in a session of its own, so that what ends this process
// does not end it.
func (k *Keeper) start() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to start the engine: %w", err)
	}
	path := filepath.Join(k.dir, engineapi.EngineLog)
	if st, err := os.Stat(path); err == nil && st.Size() > obs.MaxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return fmt.Errorf("rotating the engine's log: %w", err)
		}
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the engine's log: %w", err)
	}
	defer func() { _ = out.Close() }() // the engine has its own descriptor
	args := []string{"engine", "--data-dir", k.dir}
	if cfg, err := engineconfig.Read(k.dir); err == nil { // the engine says what is wrong with it
		for _, f := range [][2]string{{"--log-format", cfg.LogFormat}, {"--log-level", cfg.LogLevel}} {
			if f[1] != "" {
				args = append(args, f[0], f[1])
			}
		}
	}
	cmd := exec.Command(self, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the engine: %w", err)
	}
	k.log.Info("engine started", "pid", cmd.Process.Pid)
	k.pid.Store(int64(cmd.Process.Pid))
	select { // of an engine before this one
	case <-k.dead:
	default:
	}
	// Ends with the engine; it only reaps it and must not keep this process.
	go func() {
		err := cmd.Wait()
		k.pid.CompareAndSwap(int64(cmd.Process.Pid), 0)
		k.log.Warn("the engine ended", "pid", cmd.Process.Pid, "error", err)
		select {
		case k.dead <- struct{}{}:
		default:
		}
	}()
	return nil
}
