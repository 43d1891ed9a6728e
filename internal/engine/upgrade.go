package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxProgram bounds the program of a successor.
	maxProgram = 1 << 30
	// tryWithin bounds how long a program may take to say its version.
	tryWithin = 30 * time.Second
	// readyWithin bounds how long a successor may take to find everything again.
	readyWithin = time.Minute
	// longestDrain of what may be asked for.
	longestDrain = 24 * time.Hour
	// verifyEvery is how often a successor is asked whether it has found everything.
	verifyEvery = 20 * time.Millisecond
)

// errHandsOver ends what ran beside instances.
var errHandsOver = errors.New("its worker is being upgraded, and what ran beside instances ends with the engine before")

// upgrade is an order to hand over.
type upgrade struct {
	wire.EngineUpgrade
	version string
	takes   int // wire.Handover of the program
	done    chan outcome
}

type outcome struct {
	done wire.EngineUpgraded
	err  error
}

// Upgrade hands all that runs and all sockets over to an engine of another program, and
// returns when that has them. An error means that the former program goes on, in a process
// of its own if it had begun to hand over.
func (e *Engine) Upgrade(ctx context.Context, q wire.EngineUpgrade) (wire.EngineUpgraded, error) {
	if err := e.wait(ctx); err != nil {
		return wire.EngineUpgraded{}, err
	}
	if !e.opts.Listen || len(e.opts.Args) == 0 {
		return wire.EngineUpgraded{}, wire.Problemf(http.StatusConflict, "no-process", "start the worker with verge worker", "this engine cannot be upgraded", "it is part of another process")
	}
	if q.Drain < 0 || q.Drain > int64(longestDrain) {
		return wire.EngineUpgraded{}, fmt.Errorf("%w: connections cannot be kept for %s, but for up to %s", state.ErrBadQuery, time.Duration(q.Drain), longestDrain)
	}
	version, takes, err := tryProgram(ctx, q.Program, q.SHA256)
	if err != nil {
		return wire.EngineUpgraded{}, wire.Problemf(http.StatusUnprocessableEntity, "bad-program", "nothing was changed; take another file", "this program cannot be an engine", "%v", err)
	}
	e.mu.Lock()
	halting := e.halting
	e.mu.Unlock()
	if halting {
		return wire.EngineUpgraded{}, state.ErrStopped
	}
	u := &upgrade{EngineUpgrade: q, version: version, takes: takes, done: make(chan outcome, 1)}
	select {
	case e.upgrades <- u:
	case <-e.ended:
		return wire.EngineUpgraded{}, state.ErrStopped
	case <-ctx.Done():
		return wire.EngineUpgraded{}, ctx.Err()
	}
	o := <-u.done // it is not given up half-way
	return o.done, o.err
}

// tryProgram says which version a program is, if it is one of ours that runs here and has
// this checksum, and what it takes over: wire.Handover.
func tryProgram(ctx context.Context, path, sum string) (version string, takes int, err error) {
	if !filepath.IsAbs(path) {
		return "", 0, fmt.Errorf("%q is no absolute path", path)
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return "", 0, err
	case !st.Mode().IsRegular() || st.Mode()&0o111 == 0:
		return "", 0, fmt.Errorf("%s is no file that can be executed", path)
	case st.Size() > maxProgram:
		return "", 0, fmt.Errorf("%s is larger than %d bytes", path, maxProgram)
	}
	if sum != "" {
		is, err := checksum(path)
		if err != nil {
			return "", 0, err
		}
		if !strings.EqualFold(is, sum) {
			return "", 0, fmt.Errorf("%s has the SHA-256 %s and not %s", path, is, sum)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version", "-o", "json")
	cmd.Env = []string{"VERGE_CONTEXT=" + os.DevNull} // it has no server to ask
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", 0, fmt.Errorf("%s version: %w", path, err)
	}
	said := struct {
		Client   string
		Handover int
	}{Handover: 1}
	if json.Unmarshal(out, &said) != nil || said.Client == "" {
		return "", 0, fmt.Errorf("%s version says %.80q", path, out)
	}
	return said.Client, said.Handover, nil
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.Copy(h, io.LimitReader(f, maxProgram))
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

// handOver starts a successor and returns when it has found what runs. Where it does not,
// the program of this process is started in its place, and the error says why; without a
// PID neither works. Nothing of this engine runs any more but its router, which goes on.
func (e *Engine) handOver(u *upgrade, lock *os.File) (wire.EngineUpgraded, error) {
	before, _, _ := e.board.Since(0)
	done, err := e.succeed(u.Program, lock, before)
	if err == nil {
		done.From = e.opts.Version
		return done, nil
	}
	e.log.Error("the successor does not work, the former program is started again", "program", u.Program, "version", u.version, "error", err)
	// As it was started: what is at its path may be another by now.
	again, aerr := e.succeed("/proc/self/exe", lock, before)
	if aerr != nil && again.PID == 0 {
		return wire.EngineUpgraded{}, fmt.Errorf("%w; and the former program does not start again: %w", err, aerr)
	}
	return again, wire.Problemf(http.StatusBadGateway, "rolled-back", "see engine.log in the worker's folder; what runs goes on with "+e.opts.Version,
		"the new program did not work, the former one has taken over again", "%v", err)
}

// succeed starts a program as the next engine and lets it work once it has found what was
// there before. With an error it was ended again.
func (e *Engine) succeed(program string, lock *os.File, before wire.EngineState) (done wire.EngineUpgraded, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin) // not given up half-way
	defer cancel()
	next, err := e.opts.Sockets.Start(program, e.opts.Args, lock)
	if err != nil {
		return done, fmt.Errorf("starting %s: %w", program, err)
	}
	said, err := next.Wait(ctx)
	if err == nil {
		done.Instances, err = e.verify(ctx, before, next.Ended())
	}
	if err != nil {
		next.Kill()
		return done, err
	}
	done.To, done.PID, done.Connections = said, next.PID, e.kit.router.Connections()
	next.Go()
	return done, nil
}

// verify waits until the engine that answers at the socket has found what was there before.
func (e *Engine) verify(ctx context.Context, before wire.EngineState, ended <-chan struct{}) (instances int, err error) {
	path := filepath.Join(e.opts.Dir, wire.EngineSocket)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return unixsock.Dial(ctx, path) }}
	defer transport.CloseIdleConnections()
	tick := time.NewTicker(verifyEvery)
	defer tick.Stop()
	for {
		now, err := askState(ctx, &http.Client{Transport: transport})
		if err == nil {
			n, missing := found(before, now, exists)
			if missing == "" {
				return n, nil
			}
			err = errors.New(missing)
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-ended:
			return 0, fmt.Errorf("it ended after it was ready: %w", err)
		case <-tick.C:
		}
	}
}

func askState(ctx context.Context, c *http.Client) (s wire.EngineState, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine/v1/state", nil)
	if err != nil {
		return s, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return s, err
	}
	b, err := atomicfile.ReadAllBounded(resp.Body, state.MaxOrderBytes)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers with %s: %.200s", resp.Status, bytes.TrimSpace(b))
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	return s, err
}

// exists says whether there is a process.
func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// found is how many instances run as they did before, and what is missing of what there
// was before, "" if nothing is. What has ended meanwhile is not missing.
func found(before, now wire.EngineState, exists func(pid int) bool) (instances int, missing string) {
	is := make(map[wire.InstanceID]*wire.InstanceStatus, len(now.Changed))
	for i := range now.Changed {
		is[now.Changed[i].ID] = &now.Changed[i]
	}
	for i := range before.Changed {
		was := &before.Changed[i]
		if was.Phase != wire.PhaseRunning || was.Draining || was.Asleep || was.PID > 0 && !exists(was.PID) {
			continue
		}
		got := is[was.ID]
		switch {
		case got == nil:
			return 0, "instance " + was.ID + " is not there"
		case was.PID > 0 && got.PID != was.PID:
			return 0, fmt.Sprintf("instance %s is process %d and was %d", was.ID, got.PID, was.PID)
		case was.Ready && !got.Ready:
			return 0, fmt.Sprintf("instance %s is not ready (%s %s)", was.ID, got.Phase, got.Why)
		}
		instances++
	}
	for _, port := range [][3]string{
		{"data port", before.Info.DataAddr, now.Info.DataAddr}, {"gateway", before.Info.GatewayAddr, now.Info.GatewayAddr},
	} {
		if port[1] != port[2] {
			return 0, fmt.Sprintf("the %s listens at %q and did at %q", port[0], port[2], port[1])
		}
	}
	if was, is := before.Info.Network, now.Info.Network; was != nil && (is == nil || is.Mode != was.Mode) {
		return 0, "instances are not connected as before, by " + was.Mode
	}
	return instances, ""
}

// drain serves what is open until it ends, or as long as was asked for, or until the
// worker has been stopped: connections of the router, and objects on their way.
func (e *Engine) drain(ctx context.Context, u *upgrade) {
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
	e.log.Info("a successor has taken over, open connections go on here", "connections", e.kit.router.Connections(), "for", time.Duration(u.Drain))
	var moving sync.WaitGroup
	moving.Go(func() { e.kit.objects.Drain(ctx) })
	err := e.kit.router.Drain(ctx)
	moving.Wait()
	if err != nil {
		e.log.Warn("connections are cut that were open at the upgrade", "connections", e.kit.router.Connections())
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
		if _, err := os.Lstat(filepath.Join(e.opts.Dir, wire.EngineSocket)); errors.Is(err, os.ErrNotExist) {
			return
		}
	}
}
