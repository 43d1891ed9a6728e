package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	maxConfig = 1 << 20
	// startTimeout with an engine that has been started and does not answer yet.
	startTimeout = 10 * time.Second
)

var configKind = &statefile.Kind{What: "the engine's configuration", Max: maxConfig, Version: wire.Version}

// writeConfig leaves the engine what it needs to start by itself.
func writeConfig(dir string, cfg wire.EngineConfig) error {
	b, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return err
	}
	if err := configKind.Put(filepath.Join(dir, wire.EngineConfigFile), b, atomicfile.Write); err != nil {
		return fmt.Errorf("writing the engine's configuration: %w", err)
	}
	return nil
}

// readConfig is what an earlier agent left for the engine.
func readConfig(dir string) (cfg wire.EngineConfig, err error) {
	_, err = configKind.Read(filepath.Join(dir, wire.EngineConfigFile), &cfg)
	return cfg, err
}

// outdated says in words that a running engine still works with other settings
// than this agent was started with; "" where it does not.
func outdated(had, now wire.EngineConfig) string {
	var what []string
	differs := func(name, a, b string) {
		if a != b {
			what = append(what, fmt.Sprintf("%s %q instead of %q", name, a, b))
		}
	}
	differs("--data", had.DataAddr, now.DataAddr)
	differs("--gateway", had.GatewayAddr, now.GatewayAddr)
	differs("--gateway-tls", had.Gateway.String(), now.Gateway.String())
	differs("--cpus", had.Capacity.CPU.String(), now.Capacity.CPU.String())
	differs("--memory", had.Capacity.Memory.String(), now.Capacity.Memory.String())
	differs("--disk", had.Capacity.Disk.String(), now.Capacity.Disk.String())
	differs("--allow-host-path", strings.Join(had.HostPaths, ","), strings.Join(now.HostPaths, ","))
	differs("--allow-host-user", strings.Join(had.HostUsers, ","), strings.Join(now.HostUsers, ","))
	differs("--device", deviceList(had.Devices), deviceList(now.Devices))
	differs("--bandwidth in", had.Capacity.Bandwidth.In.String(), now.Capacity.Bandwidth.In.String())
	differs("--bandwidth out", had.Capacity.Bandwidth.Out.String(), now.Capacity.Bandwidth.Out.String())
	if now.Network != wire.NetworkAuto { // which either will do for; what it is shows by itself
		differs("--network", cmp.Or(had.Network, wire.NetworkLoopback), cmp.Or(now.Network, wire.NetworkLoopback))
	}
	differs("--wireguard-port", strconv.Itoa(int(had.Tunnel.Port)), strconv.Itoa(int(now.Tunnel.Port)))
	differs("--uplink", had.Tunnel.Uplink.String(), now.Tunnel.Uplink.String())
	differs("--mtu", strconv.Itoa(had.Tunnel.MTU), strconv.Itoa(now.Tunnel.MTU))
	differs("--relay", had.Relay.String(), now.Relay.String())
	differs("--containerd", had.Containerd, now.Containerd)
	differs("--pull-rate", had.Pull.Rate.String(), now.Pull.Rate.String())
	differs("--image-keep", had.Pull.KeepUnused.String(), now.Pull.KeepUnused.String())
	differs("--image-disk-high", strconv.Itoa(had.Pull.DiskHigh), strconv.Itoa(now.Pull.DiskHigh))
	differs("--registry-hosts", had.Pull.Hosts, now.Pull.Hosts)
	differs("--registry-mirror", mirrorList(had.Pull.Mirrors), mirrorList(now.Pull.Mirrors))
	differs("PATH", had.Path, now.Path)
	if len(what) == 0 {
		return ""
	}
	return "the engine goes on with its former settings (" + strings.Join(what,
		", ") + "): stop the agent, then `verge worker stop`, then start it again"
}

// mirrorList is a text of mirrors of registries.
func mirrorList(mirrors map[string]string) string {
	var out []string
	for _, host := range slices.Sorted(maps.Keys(mirrors)) {
		out = append(out, host+"="+mirrors[host])
	}
	return strings.Join(out, ",")
}

// keeper starts an engine process and does so again when it has died. An engine
// outlives its agent: the next agent finds it by its socket.
type keeper struct {
	dir  string
	log  *slog.Logger
	dead chan struct{} // a value when the engine that this process started has ended
	pid  atomic.Int64  // of the engine that this process started and that has not ended, 0 none

	mu    sync.Mutex
	stood *logfile.Collector // reads logs in place of the engine; nil while that does; guarded by mu
}

func newKeeper(dir string, log *slog.Logger) *keeper {
	return &keeper{dir: dir, log: log, dead: make(chan struct{}, 1)}
}

// standIn reads what instances write while the engine does not, so that none of them has to
// wait for it. An engine that has begun to read again meanwhile is no harm. It is called again
// as long as no engine answers: one that does not may have started programs.
func (k *keeper) standIn() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stood == nil {
		k.stood = logfile.NewCollector(k.log)
	}
	k.stood.CollectAll(filepath.Join(k.dir, wire.InstanceLogs))
}

// standDown leaves that to the engine again.
func (k *keeper) standDown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stood != nil {
		k.stood.Close()
		k.stood = nil
	}
}

// ask asks an engine whether it is there. mute: its process is, and does not
// answer.
func ask(ctx context.Context, client *Remote) (mute bool, err error) {
	within, cancel := context.WithTimeout(ctx, pulseWithin)
	defer cancel()
	_, err = client.State(within, 0, 0)
	return err != nil && within.Err() != nil, err
}

// running says whether an engine answers. One that is there and does not answer is
// ended after a while: as long as it holds the directory there can be no other.
func (k *keeper) running(ctx context.Context, client *Remote) (bool, error) {
	for missed := 0; ctx.Err() == nil; {
		mute, err := ask(ctx, client)
		if err == nil {
			k.standDown()
			return true, nil
		}
		k.standIn()
		if !mute {
			return false, nil
		}
		if missed++; missed == killAfter {
			k.log.Error("an engine is there and has not answered for too long: it is ended")
			return false, k.kill(ctx)
		}
	}
	return false, ctx.Err()
}

// ensure returns when an engine answers, starting one if need be.
func (k *keeper) ensure(ctx context.Context, client *Remote) error {
	if running, err := k.running(ctx, client); running || err != nil {
		return err
	}
	deadline := time.Now().Add(startTimeout)
	if err := k.start(); err != nil {
		return err
	}
	for {
		_, err := ask(ctx, client)
		switch {
		case err == nil:
			k.standDown()
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("the engine was started but does not answer, see %s: %w",
				filepath.Join(k.dir, wire.EngineLog), err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.dead:
			return fmt.Errorf("the engine ended at its start, see %s", filepath.Join(k.dir, wire.EngineLog))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// kill ends the process that listens on the engine's socket, whether this process
// started it or not.
func (k *keeper) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, goneWithin)
	defer cancel()
	pid, err := unixsock.Listener(ctx, filepath.Join(k.dir, wire.EngineSocket))
	if err != nil {
		return fmt.Errorf("finding the engine's process: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending the engine, process %d: %w", pid, err)
	}
	// It is gone when nobody can be connected to any more.
	for ctx.Err() == nil {
		if other, err := unixsock.Listener(ctx, filepath.Join(k.dir, wire.EngineSocket)); err != nil || other != pid {
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
func (k *keeper) start() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program to start the engine: %w", err)
	}
	path := filepath.Join(k.dir, wire.EngineLog)
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
	if cfg, err := readConfig(k.dir); err == nil { // the engine says what is wrong with it
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
