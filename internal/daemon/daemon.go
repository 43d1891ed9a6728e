package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/agent"
	"github.com/verge-edge/verge/internal/agent/probe"
	"github.com/verge-edge/verge/internal/agent/probe/hardware"
	"github.com/verge-edge/verge/internal/agent/upgrader"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/cluster"
	"github.com/verge-edge/verge/internal/daemon/repair"
	"github.com/verge-edge/verge/internal/engine"
	"github.com/verge-edge/verge/internal/engine/images"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/gcpace"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/root"
	"github.com/verge-edge/verge/internal/wire"
)

// Main runs the command line args (without the program's name) with every role
// of this build, and returns the exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Main(ctx, args, stdin, stdout, stderr, cli.Options{
		Version: obs.Version(),
		Daemons: daemonflags.Daemons{Root: runRoot, Cluster: runCluster, Worker: runWorker, StopWorker: stopWorker,
			LeaveWorker: leaveWorker, UpgradeWorker: upgradeWorker, Engine: runEngine, Dev: runDev,
			DevWorker: runDevWorker},
		Records:    &cli.Records{List: repair.List, Drop: repair.Drop, PutBack: repair.PutBack},
		JoinPlugin: joinPlugin,
		KeepPlugin: keepPlugin,
		Images:     func(address string) cli.ImageStore { return images.Open(address) },
	})
}

// newService prepares a daemon. A daemon outlives whoever reads what it prints: a
// pipe that is closed is an error of the write and not the end of the process.
func newService(p daemonflags.Process) (*service, error) {
	signal.Ignore(syscall.SIGPIPE)
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(p.LogLevel)); err != nil {
		return nil, fmt.Errorf("log level %q: %w", p.LogLevel, err)
	}
	logger := obs.NewLogger(p.Stderr, p.LogFormat, level)
	// Libraries that know no other log write to the standard one, net/http for one when an
	// instance says what nobody asked it: anybody could fill the log with that.
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelDebug).Writer())
	statefile.LogTo(logger)
	return &service{log: logger, level: level, manager: newManager(), process: p}, nil
}

func runRoot(ctx context.Context, f daemonflags.RootFlags) error {
	s, err := newService(f.Process)
	if err != nil {
		return err
	}
	defer s.settle(ctx, gcpace.Bound)()
	r, err := root.Start(ctx, root.Options{
		Dir: f.DataDir, APIAddr: f.API, LinkAddr: f.Link, Advertise: f.Advertise, DeadAfter: f.ClusterDeadAfter,
		Relay:         f.Relay,
		NetworkPrefix: f.NetworkPrefix, NetworkPool: f.NetworkPool, ServicePool: f.ServicePool,
		HooksAllow: f.HooksAllow,
		Log:        s.log.With("role", "root"),
	})
	if err != nil {
		return err
	}
	defer r.Close()
	say(f.Process, "root ready at https://%s, clusters connect to %s", r.Addr(), r.Link()[0])
	say(f.Process, "administrator's context: %s", r.ContextFile())
	say(f.Process, "next: VERGE_CONTEXT=%s verge token create --cluster NAME", r.ContextFile())
	defer onReload(ctx, s, []string{"cluster-dead-after"}, func(_ context.Context, f daemonflags.RootFlags) {
		s.setLevel(f.LogLevel)
		r.SetDeadAfter(f.ClusterDeadAfter)
	})()
	defer s.ready()()
	<-ctx.Done()
	return nil
}

func runCluster(ctx context.Context, f daemonflags.ClusterFlags) error {
	s, err := newService(f.Process)
	if err != nil {
		return err
	}
	defer s.settle(ctx, gcpace.Bound)()
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: f.DataDir, Name: f.Name, TokenFile: f.TokenFile, Stdin: f.Stdin, Root: f.Root, LinkAddr: f.Link,
		APIAddr:   f.API,
		Advertise: f.Advertise, Areas: f.Areas, Site: site(f), Details: f.ShareDetails, HeartbeatInterval: f.Interval,
		RelayOnly: f.RelayOnly, Plugins: f.Plugins, Scheduler: f.Scheduler,
		HooksAllow: f.HooksAllow,
		Log:        s.log.With("role", "cluster"),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	say(f.Process, "cluster %s ready at https://%s, workers connect to %s", c.Name(), c.Addr(), c.Link()[0])
	say(f.Process, "operator's context: %s", c.ContextFile())
	say(f.Process, "next: VERGE_CONTEXT=%s verge token create --worker", c.ContextFile())
	defer onReload(ctx, s, []string{"area", "operator", "location", "label", "share-details", "interval", "export",
		"scheduler", "plugin", "plugin-token-file", "plugin-ca", "plugin-joint"},
		func(_ context.Context, f daemonflags.ClusterFlags) {
			s.setLevel(f.LogLevel)
			c.Set(cluster.Settings{Areas: f.Areas, Site: site(f), Details: f.ShareDetails,
				HeartbeatInterval: f.Interval,
				RelayOnly:         f.RelayOnly, Plugins: f.Plugins, Scheduler: f.Scheduler})
		})()
	defer s.ready()()
	<-ctx.Done()
	return nil
}

func site(f daemonflags.ClusterFlags) wire.Site {
	return wire.Site{Operator: f.Operator, Location: f.Location, Labels: f.Labels}
}

func runWorker(ctx context.Context, f daemonflags.WorkerFlags) error {
	s, err := newService(f.Process)
	if err != nil {
		return err
	}
	defer s.settle(ctx, gcpace.Bound)()
	if f.Hollow > 0 {
		return runHollow(ctx, s, f)
	}
	capacity, err := probe.Capacity(f.DataDir, api.Resources{CPU: f.CPUs, Memory: f.Memory, Disk: f.Disk}, f.Reserve)
	if err != nil {
		return err
	}
	look := func() ([]engineapi.DeviceNode, []string) {
		return hardware.Devices(f.DataDir, f.Devices, f.ProbeDevices)
	}
	devices, missing := look()
	capacity.VGPUs, capacity.VTPUs = wire.DeviceUnits(engineapi.Devices(devices), api.DeviceGPU),
		wire.DeviceUnits(engineapi.Devices(devices), api.DeviceTPU)
	if capacity.Bandwidth = f.Bandwidth; f.ProbeBandwidth {
		capacity.Bandwidth = hardware.Bandwidth(f.Reserve)
	}
	relabel := make(chan map[string]string)
	defer onReload(ctx, s, []string{"label"}, func(ctx context.Context, f daemonflags.WorkerFlags) {
		s.setLevel(f.LogLevel)
		select {
		case relabel <- f.Labels:
		case <-ctx.Done(): // also where the agent has ended by itself, which hears of no labels
		}
	})()
	ending := func() {}
	defer func() { ending() }()
	options := agent.Options{
		Relabel: relabel, Ready: func() { ending = s.ready() },
		Dir: f.DataDir, Name: f.Name, TokenFile: f.TokenFile, Stdin: f.Stdin, Cluster: f.Cluster,
		DataAddr: f.Data, Advertise: f.Advertise, GatewayAddr: f.Gateway, Gateway: f.GatewayMore, Capacity: capacity,
		Labels:   f.Labels,
		Location: f.Location, HostPaths: f.HostPaths, HostUsers: f.HostUsers, Devices: devices, Missing: missing,
		Probe: look, Network: f.Network, Tunnel: f.Tunnel, Relay: f.Relay, Containerd: f.Containerd, Pull: f.Pull,
		Upgrades:  upgrader.Upgrades{Any: f.AnyUpgrade, Keys: f.UpgradeKeys},
		LogFormat: f.LogFormat, LogLevel: f.LogLevel, Log: s.log.With("role", "worker", "worker", f.Name),
	}
	for {
		err := agent.Run(ctx, options)
		var next *upgrader.Succession
		if !errors.As(err, &next) {
			return err
		}
		// The same process, for whoever looks after it.
		err = syscall.Exec(next.Program, append([]string{next.Program}, os.Args[1:]...),
			append(os.Environ(), next.Env(), s.manager.env()))
		s.log.Error("another program cannot take over; this one continues", "program", next.Program, "error", err)
		if err := agent.Superseded(f.DataDir, err); err != nil {
			return err
		}
	}
}

// stopTimeout is more than the longest grace that a descriptor may ask for.
const stopTimeout = 11 * time.Minute

func stopWorker(ctx context.Context, f daemonflags.StopFlags) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return agent.Stop(ctx, f.DataDir)
}

func leaveWorker(ctx context.Context, f daemonflags.LeaveFlags) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	cluster, err := agent.Leave(ctx, f.DataDir, f.Force)
	if err == nil {
		say(f.Process, "this worker has left cluster %s; logs and volumes are still in %s", cluster, f.DataDir)
	}
	return err
}

func upgradeWorker(ctx context.Context, f daemonflags.UpgradeFlags) error {
	done, err := agent.Upgrade(ctx, f.DataDir,
		engineapi.EngineUpgrade{Program: f.Binary, SHA256: f.SHA256, Drain: int64(f.Drain)})
	if err != nil {
		return err
	}
	say(f.Process, "the engine is %s and was %s: it has found %d running instances; %d connections continue in "+
		"the former one", done.To, done.From, done.Instances, done.Connections)
	return nil
}

func runEngine(ctx context.Context, f daemonflags.EngineFlags) error {
	// Nobody looks after the log of a process that its agent has started and left.
	bounded, err := obs.Bound(filepath.Join(f.DataDir, engineapi.EngineLog), obs.MaxLog, f.Process.Stderr, os.Stdout)
	if err != nil {
		return err
	}
	f.Process.Stderr = bounded
	s, err := newService(f.Process)
	if err != nil {
		return err
	}
	defer s.settle(ctx, gcpace.Run)() // it has the router, whose requests leave garbage
	return engine.Main(ctx, f.DataDir, obs.Version(), s.log.With("role", "engine"))
}

// say tells whoever started the process something that is no log line.
func say(p daemonflags.Process, format string, args ...any) {
	_, _ = fmt.Fprintf(p.Stderr, format+"\n", args...) // nobody is left to be told
}
