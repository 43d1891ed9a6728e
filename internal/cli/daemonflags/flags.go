package daemonflags

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/wire"
)

// Line is the command line that daemons are started from.
type Line struct {
	// Version of this build.
	Version        string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv reads the environment.
	Getenv func(string) string
	// ConfigDir has the files with settings; "" is the usual place.
	ConfigDir string
	// Usage is an error of how a command was written.
	Usage func(cmd *cobra.Command, format string, args ...any) error
}

// failure is an error with its reason and the next step, in the form of the client's.
func failure(what, why, next string) error {
	if next != "" {
		next = "\n  → " + next
	}
	return fmt.Errorf("%s: %s%s", what, why, next)
}

// Daemons run the roles until ctx ends. Their flags have been checked.
type Daemons struct {
	Root    func(ctx context.Context, f RootFlags) error
	Cluster func(ctx context.Context, f ClusterFlags) error
	Worker  func(ctx context.Context, f WorkerFlags) error
	// StopWorker stops what a worker left running when its agent ended.
	StopWorker func(ctx context.Context, f StopFlags) error
	// LeaveWorker takes a worker out of its cluster and ends it.
	LeaveWorker func(ctx context.Context, f LeaveFlags) error
	// UpgradeWorker hands a worker's engine over to another program.
	UpgradeWorker func(ctx context.Context, f UpgradeFlags) error
	Engine        func(ctx context.Context, f EngineFlags) error
	Dev           func(ctx context.Context, f DevFlags) error
	// DevWorker is a worker of verge dev in a network namespace of its own.
	DevWorker func(ctx context.Context, f DevWorkerFlags) error
}

// Process is what every daemon gets from the process that it is.
type Process struct {
	// Version of this build.
	Version string
	// Stdin, Stdout and Stderr of the process. Logs go to Stderr.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Getenv reads the environment.
	Getenv func(string) string
	// LogFormat is "text" or "json"; LogLevel "debug", "info", "warn" or "error".
	LogFormat, LogLevel string
	// Reread settles the flags anew, after a change of the files: it returns the
	// same type of flags that the role was started with, and the names of those
	// that changed since the start or the last Reread that succeeded.
	Reread func() (flags any, changed []string, err error)
}

// RootFlags of verge root.
type RootFlags struct {
	Process
	// DataDir is never "".
	DataDir string
	// API and Link are the addresses to listen on, host:port.
	API, Link string
	// Advertise are the host names and addresses of this root for others; empty: detected.
	Advertise []string
	// Relay that runs beside it.
	Relay wire.RelayConfig
	// ClusterDeadAfter is how long a cluster may be silent before its instances
	// are replaced elsewhere; more than 0.
	ClusterDeadAfter time.Duration
	// NetworkPrefix, NetworkPool and ServicePool of the service network; zero leaves what was chosen
	// before, or the default.
	NetworkPrefix, NetworkPool, ServicePool netip.Prefix
	// HooksAllow are networks to which hooks may go although they are usually not for them.
	HooksAllow []netip.Prefix
}

// ClusterFlags of verge cluster.
type ClusterFlags struct {
	Process
	DataDir string
	// Name of the cluster, a DNS label; "" takes it from the token or identity.
	Name string
	// TokenFile holds a join token, "-" is Stdin; "" where the cluster has joined
	// before.
	TokenFile string
	// Root are the addresses of the root's link, empty for those of the join.
	Root      []string
	Link, API string
	Advertise []string
	Areas     []string
	// Operator is who runs it, in words; Location where it is, nil if that is not
	// said; Labels are those of all its workers.
	Operator string
	Location *api.Point
	Labels   map[string]string
	// ShareDetails lets the root show logs, workers and decisions of this cluster.
	ShareDetails bool
	// RelayOnly tells other clusters of a relay instead of workers' addresses.
	RelayOnly bool
	// Scheduler of services that name none.
	Scheduler string
	// Interval is the longest time between two reports (λ), 1s to 10s.
	Interval time.Duration
	// Plugins that rank workers, in the order of their names.
	Plugins []plugin.Config
	// HooksAllow is as in RootFlags.
	HooksAllow []netip.Prefix
}

// WorkerFlags of verge worker.
type WorkerFlags struct {
	Process
	DataDir string
	// Name of the worker, a DNS label; never "".
	Name      string
	TokenFile string
	// Cluster are the addresses of the cluster's link, empty for those of the join.
	Cluster []string
	// Data is the address of the data port, "" for none.
	Data string
	// Advertise is HOST or HOST:PORT of the data port for others; "" is detected, "none" is
	// unreachable.
	Advertise string
	// Gateway is the address to listen on for users; "" for none. GatewayMore is the
	// rest of how it is a gateway.
	Gateway     string
	GatewayMore engineapi.GatewayConfig
	// CPUs, Memory and Disk are the capacity; zero is what the machine has, less
	// Reserve (a fraction, 0 to 0.9).
	CPUs         api.CPU
	Memory, Disk api.Bytes
	Reserve      float64
	Labels       map[string]string
	// HostPaths are directories, absolute and clean; instances may use directories below them.
	HostPaths []string
	// HostUsers are the users of the machine that instances may run as.
	HostUsers []string
	// Devices that were set, and whether others are to be looked for.
	Devices      []engineapi.DeviceNode
	ProbeDevices bool
	// Bandwidth of the machine's connection that instances may reserve; ProbeBandwidth
	// is to be found out.
	Bandwidth      api.Bandwidth
	ProbeBandwidth bool
	// Network is how instances are connected: auto, overlay or loopback.
	Network string
	// Tunnel is how packets for other workers travel in the service network.
	Tunnel wire.TunnelConfig
	// Relay that runs beside it.
	Relay wire.RelayConfig
	// Containerd is the address of containerd's socket; "" is the usual one.
	Containerd string
	// Pull is how images are fetched.
	Pull engineapi.PullConfig
	// Programs that the cluster may bring: any, or those that one of the keys has signed.
	AnyUpgrade  bool
	UpgradeKeys []ed25519.PublicKey
	// Location of the machine, nil if that is not said.
	Location *api.Point
	// Hollow is how many workers that run nothing this process is; 0: it is a worker.
	Hollow int
}

// StopFlags of verge worker stop.
type StopFlags struct {
	Process
	// DataDir of the worker, never "".
	DataDir string
}

// LeaveFlags of verge worker leave.
type LeaveFlags struct {
	StopFlags
	// Force: also where something is placed there.
	Force bool
}

// UpgradeFlags of verge worker upgrade.
type UpgradeFlags struct {
	StopFlags
	// Binary is the program, "" this one. SHA256 is what it must have, "" anything.
	Binary, SHA256 string
	// Drain bounds how long open connections are kept by the former engine.
	Drain time.Duration
}

// EngineFlags of verge engine, which an agent starts.
type EngineFlags struct {
	Process
	// DataDir holds the configuration that the agent wrote.
	DataDir string
}

// DevFlags of verge dev.
type DevFlags struct {
	Process
	// DataDir, "" for a fresh temporary one that is removed at the end.
	DataDir string
	// Clusters are their names, DNS labels, at least one.
	Clusters []string
	// Workers of each cluster, 1 to 100.
	Workers int
	// API, Gateway and GatewayTLS are the addresses to listen on; "" for no gateway.
	API, Gateway, GatewayTLS string
	// Scheduler and Plugins of each cluster, as in ClusterFlags.
	Scheduler string
	Plugins   []plugin.Config
	// Network is wire.NetworkAuto, NetworkOverlay or NetworkLoopback.
	Network string
}

// DevWorkerFlags of verge dev-worker, which verge dev starts. The rest comes on its standard
// input.
type DevWorkerFlags struct {
	Process
	// DataDir of the worker, for who lists processes.
	DataDir string
}
