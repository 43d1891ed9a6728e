package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/successor"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// readyWithin bounds how long a successor may take to find everything again.
	readyWithin = time.Minute
	// longestDrain of what may be asked for.
	longestDrain = 24 * time.Hour
)

// errHandsOver ends what ran beside instances.
var errHandsOver = errors.New("its worker is being upgraded, and what ran beside instances ends with the engine before")

// upgrade is an order to hand over.
type upgrade struct {
	engineapi.EngineUpgrade
	version string
	takes   int // engineapi.Handover of the program
	done    chan outcome
}

type outcome struct {
	done engineapi.EngineUpgraded
	err  error
}

// Upgrade hands all instances and sockets over to an engine of another program, and returns when
// that has them. On an error the former program continues, in a process of its own if the
// handover had begun.
func (e *Engine) Upgrade(ctx context.Context, q engineapi.EngineUpgrade) (engineapi.EngineUpgraded, error) {
	if err := e.wait(ctx); err != nil {
		return engineapi.EngineUpgraded{}, err
	}
	if !e.opts.Listen || len(e.opts.Args) == 0 {
		return engineapi.EngineUpgraded{},
			wire.Problemf(http.StatusConflict, "no-process", "start the worker with verge worker",
				"this engine cannot be upgraded", "it is part of another process")
	}
	if q.Drain < 0 || q.Drain > int64(longestDrain) {
		return engineapi.EngineUpgraded{},
			fmt.Errorf("%w: connections cannot be kept for %s, but for up to %s", state.ErrBadQuery,
				time.Duration(q.Drain), longestDrain)
	}
	version, takes, err := successor.Try(ctx, q.Program, q.SHA256)
	if err != nil {
		return engineapi.EngineUpgraded{},
			wire.Problemf(http.StatusUnprocessableEntity, "bad-program", "nothing was changed; take another file",
				"this program cannot be an engine", "%v", err)
	}
	e.mu.Lock()
	halting := e.halting
	e.mu.Unlock()
	if halting {
		return engineapi.EngineUpgraded{}, state.ErrStopped
	}
	u := &upgrade{EngineUpgrade: q, version: version, takes: takes, done: make(chan outcome, 1)}
	select {
	case e.upgrades <- u:
	case <-e.ended:
		return engineapi.EngineUpgraded{}, state.ErrStopped
	case <-ctx.Done():
		return engineapi.EngineUpgraded{}, ctx.Err()
	}
	o := <-u.done // it is not given up half-way
	return o.done, o.err
}

// handOver starts a successor and returns when it has found all instances. If it fails, the
// program of this process is started in its place, and the error says why; without a PID neither
// works. Of this engine only the router is left.
func (e *Engine) handOver(u *upgrade, lock *os.File) (engineapi.EngineUpgraded, error) {
	if n := e.deps.network.Overlay(); n != nil {
		n.Yield(u.takes > 1) // else its successor would find its addresses taken
	}
	if e.opts.Release != nil {
		e.opts.Release()
	}
	before, _, _ := e.board.Since(0)
	done, err := e.succeed(u.Program, lock, before)
	if err == nil {
		done.From = e.opts.Version
		return done, nil
	}
	e.log.Error("the successor does not work, the former program is started again", "program", u.Program, "version",
		u.version, "error", err)
	// As it was started: what is at its path may be another by now.
	again, aerr := e.succeed("/proc/self/exe", lock, before)
	if aerr != nil && again.PID == 0 {
		return engineapi.EngineUpgraded{}, fmt.Errorf("%w; and the former program does not start again: %w", err, aerr)
	}
	return again, wire.Problemf(http.StatusBadGateway, "rolled-back",
		"see engine.log in the worker's folder; instances keep running with "+e.opts.Version,
		"the new program did not work, the former one has taken over again", "%v", err)
}

// succeed starts a program as the next engine and lets it work once it has found what was
// there before. With an error it was ended again.
func (e *Engine) succeed(program string, lock *os.File, before engineapi.EngineState) (done engineapi.EngineUpgraded,
	err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin) // not given up half-way
	defer cancel()
	next, err := e.opts.Sockets.Start(program, e.opts.Args, lock)
	if err != nil {
		return done, fmt.Errorf("starting %s: %w", program, err)
	}
	said, err := next.Wait(ctx)
	if err == nil {
		done.Instances, err = successor.Verify(ctx, filepath.Join(e.opts.Dir, engineapi.EngineSocket), before,
			next.Ended())
	}
	if err != nil {
		next.Kill()
		return done, err
	}
	done.To, done.PID, done.Connections = said, next.PID, e.deps.router.Connections()
	next.Go()
	return done, nil
}

// drain serves what is open until it ends, or as long as was asked for, or until the
// worker has been stopped: connections of the router, and objects on their way.
func (e *Engine) drain(ctx context.Context, u *upgrade) {
	if n := e.deps.network.Overlay(); n != nil {
		n.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(u.Drain))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		e.untilStopped(ctx)
		cancel()
	}()
	defer func() {
		cancel()
		<-watched
	}()
	e.log.Info("a successor has taken over; open connections continue here", "connections", e.deps.router.Connections(),
		"for", time.Duration(u.Drain))
	var moving sync.WaitGroup
	moving.Go(func() { e.deps.objects.Drain(ctx) })
	err := e.deps.router.Drain(ctx)
	moving.Wait()
	if err != nil {
		e.log.Warn("connections are cut that were open at the upgrade", "connections", e.deps.router.Connections())
		return
	}
	e.log.Info("no connection is left, this engine ends")
}

// untilStopped returns when ctx is done or the worker's engine has ended in an orderly way:
// it removes its socket then.
func (e *Engine) untilStopped(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := os.Lstat(filepath.Join(e.opts.Dir, engineapi.EngineSocket)); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
}
