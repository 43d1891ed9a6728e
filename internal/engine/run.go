package engine

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// Pace of what an engine does by the clock.
const (
	rotateEvery   = 5 * time.Second
	firstReopen   = time.Second
	slowestReopen = 30 * time.Second
)

// Run works until ctx is done or Shutdown has stopped everything, and returns
// nil then; an error means that it could not begin. Instances go on when ctx is
// done, for the next engine in the same directory to take up. Run is called
// once.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var endOnce sync.Once
	end := func() { endOnce.Do(func() { close(e.ended) }) }
	defer end()

	unlock, err := lockDir(e.opts.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.assemble(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer e.kit.router.Close()
	defer wg.Wait()
	defer cancel()
	// The router first: what starts may use it at once.
	if !e.openRouter(ctx) {
		wg.Go(func() { e.reopenRouter(ctx) })
	}
	e.mu.Lock()
	e.spawn = func(f func(context.Context)) { wg.Go(func() { f(ctx) }) }
	err = e.load(ctx)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.spawn = nil
		e.mu.Unlock()
	}()
	if err != nil {
		return err
	}
	close(e.loaded)
	e.replan()
	if e.opts.Listen {
		stop, err := e.serve(filepath.Join(e.opts.Dir, wire.EngineSocket))
		if err != nil {
			return err
		}
		defer stop()
	}
	wg.Go(func() { e.rotate(ctx) })
	e.log.Info("engine works", "dir", e.opts.Dir)

	select {
	case <-ctx.Done():
	case <-e.halted:
	}
	end() // lets go of who waits for a state or a log, before their server stops
	return nil
}

// openRouter opens the router's ports; false if it must be tried again.
func (e *Engine) openRouter(ctx context.Context) bool {
	err := e.kit.router.Start(ctx)
	e.kit.problems.set("router", err)
	if err != nil {
		return false
	}
	e.board.setInfo(func(i *wire.EngineInfo) {
		i.DataAddr, i.GatewayAddr = e.kit.router.DataAddr(), e.kit.router.GatewayAddr()
	})
	return true
}

// reopenRouter tries until the router's ports are open. A port that is taken
// must not keep instances from running.
func (e *Engine) reopenRouter(ctx context.Context) {
	for pause := firstReopen; ; pause = min(2*pause, slowestReopen) {
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		if e.openRouter(ctx) {
			return
		}
	}
}

// rotate keeps the logs of what runs within their bounds. While nothing runs it
// sleeps.
func (e *Engine) rotate(ctx context.Context) {
	var timer *time.Timer
	for {
		ids, changed := e.board.running()
		if len(ids) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				continue
			}
		}
		for _, id := range ids {
			dir := place{dir: filepath.Join(e.opts.Dir, instancesDir, id)}.log()
			_, err := logfile.Rotate(dir, logfile.Options{Logger: e.log})
			e.kit.problems.set(logSubject(id), err)
		}
		if timer == nil {
			timer = time.NewTimer(rotateEvery)
			defer timer.Stop()
		} else {
			timer.Reset(rotateEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}
