package daemonflags

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Commands are those that run daemons, and the one of them that is a worker's, which has
// others below it.
func (l *Line) Commands(d Daemons) (all []*cobra.Command, worker *cobra.Command) {
	worker = daemon(l, l.workerRole, d.Worker)
	worker.AddCommand(daemon(l, l.workerStopRole, d.StopWorker), daemon(l, l.workerLeaveRole, d.LeaveWorker),
		daemon(l, l.workerUpgradeRole, d.UpgradeWorker))
	return []*cobra.Command{
		daemon(l, l.devRole, d.Dev), daemon(l, l.rootRole, d.Root), daemon(l, l.clusterRole, d.Cluster), worker,
		daemon(l, l.engineRole, d.Engine), daemon(l, l.devWorkerRole, d.DevWorker),
	}, worker
}

// Settings are the flags of a root, a cluster or a worker, for commands that only show them.
type Settings struct {
	// Cmd has the flags; what it does is up to the caller.
	Cmd *cobra.Command
	// Settle completes them from the environment and from files, and checks them.
	Settle func() error
	// Origin says where a setting came from, by the name of its flag.
	Origin map[string]string
}

// Settings of a root, a cluster and a worker.
func (l *Line) Settings() []Settings {
	return []Settings{settingsOf(l, l.rootRole()), settingsOf(l, l.clusterRole()), settingsOf(l, l.workerRole())}
}

func settingsOf[F any](l *Line, r *role[F]) Settings {
	return Settings{Cmd: r.cmd, Settle: func() error { return r.settle(l) }, Origin: r.origin}
}

// role is the command of a daemon with the flags that it fills in.
type role[F any] struct {
	cmd     *cobra.Command
	flags   *F
	process *Process
	// check fills in what depends on the machine, and refuses what cannot be.
	check func() error
	// config names the files with settings for it, "" if there are none.
	config string
	// origin says where a setting came from, by the name of its flag.
	origin map[string]string
}

// newRole prepares the command of a role.
func newRole[F any](l *Line, cmd *cobra.Command, f *F, p *Process, config string, check func() error) *role[F] {
	*p = Process{Version: l.Version, Stdin: l.Stdin, Stdout: l.Stdout, Stderr: l.Stderr, Getenv: l.Getenv}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return l.Usage(cmd, "%q is one argument too many, it takes none", args[0])
		}
		return nil
	}
	if config != "" {
		cmd.Flags().String(configFlag, "",
			"file with settings, one line of name: value for each flag (default: /etc/verge/"+config+
				".yaml; without root rights $XDG_CONFIG_HOME/verge/"+config+".yaml)")
	}
	cmd.Flags().StringVar(&p.LogFormat, "log-format", "text", "log format: text or json")
	cmd.Flags().StringVar(&p.LogLevel, "log-level", "info", "log level: debug, info, warn or error")
	return &role[F]{cmd: cmd, flags: f, process: p, check: check, config: config, origin: map[string]string{}}
}

// settle completes the flags from the environment and from the files, in this
// order, and checks them.
func (r *role[F]) settle(l *Line) error {
	for _, f := range givenFlags(r.cmd) {
		r.origin[f.Name] = "command line"
	}
	if err := l.flagsFromEnvironment(r.cmd, r.origin); err != nil {
		return err
	}
	if f := r.cmd.Flags().Lookup(configFlag); f != nil {
		main := f.Value.String()
		if main == "" {
			main = l.ConfigFile(r.config)
		}
		files, err := configFiles(main, f.Changed)
		if err == nil {
			err = flagsFromFiles(r.cmd, files, r.cmd.Name() == r.config, r.origin)
		}
		if err != nil {
			return err
		}
	}
	err := oneOf("--log-format", r.process.LogFormat, "text", "json")
	if err == nil {
		err = oneOf("--log-level", r.process.LogLevel, "debug", "info", "warn", "error")
	}
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return l.Usage(r.cmd, "%v", err)
	}
	return nil
}

// daemon makes the command of a role: its flags are completed and checked, then
// the role runs.
func daemon[F any](l *Line, build func() *role[F], run func(context.Context, F) error) *cobra.Command {
	r := build()
	r.cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// The values are those of the command line until the role has settled.
		line := map[string]any{}
		for _, f := range givenFlags(cmd) {
			line[f.Name] = TextOf(f)
		}
		if err := r.settle(l); err != nil {
			return err
		}
		if run == nil {
			return failure(cmd.Name(), "this build lacks that role", "use a full build of verge")
		}
		r.process.Reread = func() (any, []string, error) { return reread(l, build, line, r.cmd) }
		return run(cmd.Context(), *r.flags)
	}
	return r.cmd
}

// reread settles the flags anew, and names those that are others now.
func reread[F any](l *Line, build func() *role[F], line map[string]any, old *cobra.Command) (any, []string, error) {
	r := build()
	for name, value := range line {
		f := r.cmd.Flags().Lookup(name)
		if err := setText(f, value); err != nil {
			return nil, nil, fmt.Errorf("--%s: %w", name, err)
		}
		f.Changed = true
	}
	if err := r.settle(l); err != nil {
		return nil, nil, err
	}
	var changed []string
	for _, f := range SortedFlags(r.cmd) {
		if was := old.Flags().Lookup(f.Name); was == nil || was.Value.String() != f.Value.String() {
			changed = append(changed, f.Name)
			if was != nil {
				if err := setText(was, TextOf(f)); err != nil { // so that the next time compares with this one
					return nil, nil, fmt.Errorf("--%s: %w", f.Name, err)
				}
			}
		}
	}
	return *r.flags, changed, nil
}

func (l *Line) rootRole() *role[RootFlags] {
	f := &RootFlags{}
	var ipv6, pool, services, relayPorts string
	var allow []string
	cmd := &cobra.Command{Use: "root", Short: "Run a root: owns applications, knows clusters"}
	fl := cmd.Flags()
	fl.StringVar(&f.DataDir, "data-dir", "", dataDirUsage("root"))
	fl.StringVar(&f.API, "api", "0.0.0.0:"+rpc.RootAPIPort, "address of the HTTP interface")
	fl.StringVar(&f.Link, "link", "0.0.0.0:8471", "address for clusters to connect to")
	fl.StringSliceVar(&f.Advertise, "advertise", nil,
		"host name or address by which others reach this root (repeatable; default: detected)")
	fl.DurationVar(&f.ClusterDeadAfter, "cluster-dead-after", time.Minute,
		"replace the instances of a cluster that has been silent for this long")
	relayFlags(fl, &f.Relay, &relayPorts)
	fl.StringVar(&ipv6, "network-prefix", "",
		"IPv6 network (fd.../48) of all instances (default: generated at the first start)")
	fl.StringVar(&pool, "network-pool", "",
		"pool of workers' IPv4 networks, a /24 each (default 10.128.0.0/9, or what was chosen before)")
	fl.StringVar(&services, "network-services", "",
		"pool of services' IPv4 addresses (default 10.30.0.0/16, or what was chosen before)")
	fl.StringSliceVar(&allow, "hooks-allow", nil, hooksAllowUsage)
	return newRole(l, cmd, f, &f.Process, "root", func() (err error) {
		if f.HooksAllow, err = networks("--hooks-allow", allow); err != nil {
			return err
		}
		if err := settleRelay(&f.Relay, relayPorts); err != nil {
			return err
		}
		if f.NetworkPrefix, err = prefix("--network-prefix", ipv6); err != nil {
			return err
		}
		if f.NetworkPool, err = prefix("--network-pool", pool); err != nil {
			return err
		}
		if f.ServicePool, err = prefix("--network-services", services); err != nil {
			return err
		}
		if f.ClusterDeadAfter <= 0 {
			return errMustBe("--cluster-dead-after", f.ClusterDeadAfter, "more than 0")
		}
		return firstError(l.dataDir(&f.DataDir, "root"), address("--api", f.API), address("--link", f.Link),
			hosts("--advertise", f.Advertise))
	})
}

const hooksAllowUsage = "network that hooks may reach although it belongs to this machine, its link or cloud " +
	"metadata (repeatable; default: none)"

// defaultInterval is the heartbeat interval of workers that their cluster says nothing else of.
const defaultInterval = rpc.MaxHeartbeat

// prefix reads the value of a flag, zero where it is not set.
func prefix(flag, value string) (p netip.Prefix, err error) {
	if value == "" {
		return p, nil
	}
	six, like := flag == "--network-prefix", "an IPv4 network as 10.128.0.0/9"
	if six {
		like = "an IPv6 network as fd12:3456:789a::/48"
	}
	if p, err = netip.ParsePrefix(value); err != nil || p.Addr().Is4() == six || p != p.Masked() {
		return p, errMustBe(flag, strconv.Quote(value), like)
	}
	return p, nil
}

// networks reads the values of a flag.
func networks(flag string, values []string) (out []netip.Prefix, err error) {
	for _, v := range values {
		p, err := netip.ParsePrefix(v)
		if err != nil || p != p.Masked() {
			return nil, errMustBe(flag, strconv.Quote(v), "a network as 127.0.0.0/8 or ::1/128")
		}
		out = append(out, p)
	}
	return out, nil
}

func (l *Line) clusterRole() *role[ClusterFlags] {
	f := &ClusterFlags{}
	var where, export string
	var allow []string
	var plugins pluginFlags
	cmd := &cobra.Command{Use: "cluster", Short: "Run a cluster: owns its workers, places instances on them"}
	fl := cmd.Flags()
	fl.StringVar(&f.DataDir, "data-dir", "", dataDirUsage("cluster"))
	fl.StringVar(&f.Name, "name", "", "name of the cluster (default: that in the token)")
	fl.StringVar(&f.TokenFile, "token-file", "",
		"file with the join token, - for standard input; needed the first time only")
	fl.StringSliceVar(&f.Root, "root", nil, "HOST:PORT of the root's link, if it has moved since the join (repeatable)")
	fl.StringVar(&f.Link, "link", ":8472", "address for workers to connect to")
	fl.StringVar(&f.API, "api", ":"+rpc.ClusterAPIPort, "address of the HTTP interface")
	fl.StringSliceVar(&f.Advertise, "advertise", nil,
		"host name or address by which others reach this cluster (repeatable; default: detected)")
	fl.StringSliceVar(&f.Areas, "area", nil, "area that this cluster serves (repeatable)")
	fl.StringVar(&f.Operator, "operator", "", "who runs this cluster, for people")
	fl.StringVar(&where, "location", "", locationUsage)
	fl.StringToStringVar(&f.Labels, "label", nil, "label of all its workers as KEY=VALUE (repeatable)")
	fl.BoolVar(&f.ShareDetails, "share-details", false,
		"let the root show this cluster's workers, logs and decisions, and pass on its operators' commands (exec, "+
			"cordon, drain)")
	fl.StringVar(&export, "export", "address",
		"how other clusters reach instances here: address (of the worker's data port) or relay (only through a relay)")
	fl.StringVar(&f.Scheduler, "scheduler", place.ROM, "scheduler for services whose descriptor names none: "+
		strings.Join(place.Schedulers(), ", ")+", plugin:NAME")
	fl.DurationVar(&f.Interval, "interval", defaultInterval, "longest time between two reports, 1s to 10s")
	fl.StringSliceVar(&allow, "hooks-allow", nil, hooksAllowUsage)
	plugins.add(fl)
	return newRole(l, cmd, f, &f.Process, "cluster", func() (err error) {
		if f.HooksAllow, err = networks("--hooks-allow", allow); err != nil {
			return err
		}
		if f.Location, err = location("--location", where); err != nil {
			return err
		}
		if f.Plugins, err = plugins.settle(); err != nil {
			return err
		}
		if f.RelayOnly = export == "relay"; !f.RelayOnly && export != "address" {
			return errMustBe("--export", strconv.Quote(export), "address or relay")
		}
		if err := defaultScheduler(f.Scheduler, f.Plugins); err != nil {
			return err
		}
		if len(f.Operator) > maxOperator {
			return errMustBe("--operator", fmt.Sprintf("%d bytes long", len(f.Operator)),
				fmt.Sprintf("at most %d", maxOperator))
		}
		if f.Interval < time.Second || f.Interval > rpc.MaxHeartbeat {
			return errMustBe("--interval", f.Interval, "1s to 10s")
		}
		return firstError(l.dataDir(&f.DataDir, "cluster"), optionalLabel("--name", f.Name), address("--link", f.Link),
			address("--api", f.API), hosts("--advertise", f.Advertise), labels("--area", f.Areas),
			keyValues("--label", f.Labels))
	})
}

// maxHollow bounds what one process takes on: each has two open files.
const maxHollow = 10_000

func (l *Line) workerRole() *role[WorkerFlags] {
	f := &WorkerFlags{}
	var acme acmeFlags
	var reserve, where, wireguard, relayPorts, bandwidth, upgrades string
	var devices, mirrors []string
	cmd := &cobra.Command{Use: "worker", Short: "Run a worker: runs instances"}
	fl := cmd.Flags()
	fl.StringVar(&f.DataDir, "data-dir", "", dataDirUsage("worker"))
	fl.IntVar(&f.Hollow, "hollow", 0,
		"to test a cluster at size: run this many workers, NAME-1 and so on, in one process that runs no instances "+
			"(make the token with --uses N)")
	fl.StringVar(&f.Name, "name", "", "name of the worker (default: the host name)")
	fl.StringVar(&f.TokenFile, "token-file", "",
		"file with the join token, - for standard input; needed the first time only")
	fl.StringSliceVar(&f.Cluster, "cluster", nil,
		"HOST:PORT of the cluster's link, if it has moved since the join (repeatable)")
	fl.StringVar(&f.Data, "data", ":8474", "address for traffic between workers; none for no such port")
	fl.StringVar(&f.Advertise, "advertise", "",
		"HOST or HOST:PORT by which other workers reach --data; none if they cannot (default: detected)")
	fl.StringVar(&f.Gateway, "gateway", "", "address for users' requests, for example :8480 (default: no gateway)")
	gatewayFlags(fl, &f.GatewayMore, &acme)
	fl.TextVar(&f.CPUs, "cpus", api.CPU(0), "cpu for instances, as 4 or 500m (0: all of the machine)")
	fl.TextVar(&f.Memory, "memory", api.Bytes(0), "memory for instances, as 2Gi (0: all of the machine)")
	fl.TextVar(&f.Disk, "disk", api.Bytes(0), "disk for instances, as 20Gi (0: all that is free)")
	fl.StringVar(&reserve, "reserve", "5%", "part of the machine held back from instances, where not set above")
	fl.StringToStringVar(&f.Labels, "label", nil, "label as KEY=VALUE (repeatable)")
	fl.StringVar(&f.Containerd, "containerd", "",
		"socket of containerd, which runs containers (default: /run/containerd/containerd.sock)")
	pullFlags(fl, &f.Pull, &mirrors)
	fl.StringSliceVar(&f.HostPaths, "allow-host-path", nil,
		"directory below which instances may use directories as volumes (repeatable; default: none)")
	fl.StringSliceVar(&f.HostUsers, "allow-host-user", nil,
		"other user that processes may run as, named as in descriptors: root, www-data, 1000:1000 (repeatable; "+
			"default: none)")
	fl.StringArrayVar(&devices, "device", nil,
		"device for instances beside those detected, as TYPE=PATH[:PATH...][,model=NAME][,count=N] (repeatable; "+
			"none: detect none)")
	fl.StringVar(&bandwidth, "bandwidth", autoWord,
		"what instances may reserve of the machine's connection, as 1Gbps or in=100Mbps,out=20Mbps; auto: the speed "+
			"of the network card; none: nothing")
	fl.StringVar(&where, "location", "", locationUsage)
	fl.StringVar(&f.Network, "network", wire.NetworkAuto,
		"how instances are connected: overlay (the service network, with addresses for each; needs root on Linux), "+
			"loopback (they share the machine's network) or auto (overlay if the machine can, else loopback)")
	tunnelFlags(fl, f, &wireguard)
	relayFlags(fl, &f.Relay, &relayPorts)
	upgradesFlag(fl, &upgrades)
	return newRole(l, cmd, f, &f.Process, "worker", func() (err error) {
		if err := settleUpgrades(f, upgrades); err != nil {
			return err
		}
		if !slices.Contains([]string{wire.NetworkAuto, wire.NetworkOverlay, wire.NetworkLoopback}, f.Network) {
			return errMustBe("--network", strconv.Quote(f.Network), "auto, overlay or loopback")
		}
		if err := settleTunnel(f, wireguard); err != nil {
			return err
		}
		if err := settleRelay(&f.Relay, relayPorts); err != nil {
			return err
		}
		if err := settlePull(&f.Pull, mirrors); err != nil {
			return err
		}
		if f.Relay.Listen != "" && f.Advertise == "none" {
			return errMustBe("--advertise", "none", "an address at which other workers reach the relay (--relay)")
		}
		if f.Reserve, err = percent("--reserve", reserve); err != nil {
			return err
		}
		if f.Location, err = location("--location", where); err != nil {
			return err
		}
		if f.Devices, f.ProbeDevices, err = deviceFlags(devices); err != nil {
			return err
		}
		if f.Bandwidth, f.ProbeBandwidth, err = bandwidthFlag(bandwidth); err != nil {
			return err
		}
		noneIsEmpty(&f.Data, &f.Gateway)
		if f.Hollow < 0 || f.Hollow > maxHollow {
			return errMustBe("--hollow", f.Hollow, fmt.Sprintf("0 to %d", maxHollow))
		}
		if f.Hollow > 0 && (f.Gateway != "" || f.Relay.Listen != "") {
			return errors.New("--hollow: such workers cannot be gateways or relays; leave out --gateway and --relay")
		}
		if err := settleGateway(f.Gateway, &f.GatewayMore, &acme); err != nil {
			return err
		}
		return firstError(l.dataDir(&f.DataDir, "worker"), workerLabel(&f.Name), optionalAddress("--data", f.Data),
			advertised("--advertise", f.Advertise), optionalAddress("--gateway", f.Gateway),
			keyValues("--label", f.Labels),
			directories("--allow-host-path", f.HostPaths), hostUsers("--allow-host-user", f.HostUsers))
	})
}

func (l *Line) workerStopRole() *role[StopFlags] {
	f := &StopFlags{}
	cmd := &cobra.Command{
		Use: "stop", Short: "Stop a worker's engine and its instances",
		Long: "Instances outlive verge worker, so that it can be restarted and upgraded. Once it has ended, this " +
			"stops them and the engine.",
	}
	cmd.Flags().StringVar(&f.DataDir, "data-dir", "", dataDirUsage("worker"))
	return newRole(l, cmd, f, &f.Process, "worker", func() error { return l.dataDir(&f.DataDir, "worker") })
}

func (l *Line) workerLeaveRole() *role[LeaveFlags] {
	f := &LeaveFlags{}
	cmd := &cobra.Command{
		Use: "leave", Short: "Remove this worker from its cluster, and end what it runs",
		Long: `Remove this worker from its cluster for good, with its own key, and end what it left
running: instances, rules, devices, names. Its identity is removed; logs and volumes
stay in its directory. To come back, it joins with a new token.

This is refused while something is placed here: drain the worker first, at its
cluster. With --force its instances are placed elsewhere.`,
	}
	cmd.Flags().StringVar(&f.DataDir, "data-dir", "", dataDirUsage("worker"))
	cmd.Flags().BoolVar(&f.Force, "force", false, "even if something runs there")
	return newRole(l, cmd, f, &f.Process, "worker", func() error { return l.dataDir(&f.DataDir, "worker") })
}

// longestDrain is how long connections may be kept after an upgrade.
const longestDrain = 24 * time.Hour

func (l *Line) workerUpgradeRole() *role[UpgradeFlags] {
	f := &UpgradeFlags{}
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Hand a worker's engine over to another version of verge",
		Long: `Hand the engine of the worker on this machine over to another program: by default this
one, so that "verge worker upgrade" is enough after a package upgrade. Run it as the
worker's user.

The program is tried first. Then the engine starts it and passes on its listening
sockets, and the new engine finds what runs. When it has found everything, and every
instance that was ready is ready again, it accepts new connections. Open ones stay with
the old engine until they end, for --drain at most. If the new program does not get that
far within a minute, it is ended and the old one takes over again; the command says so
and exits with 1.

The agent continues; systemctl restart verge-worker makes it the new version too. The
next boot starts the program that the systemd unit names, so put the new one there.`,
	}
	fl := cmd.Flags()
	fl.StringVar(&f.DataDir, "data-dir", "", dataDirUsage("worker"))
	fl.StringVar(&f.Binary, "binary", "", "file with the program (default: this one)")
	fl.StringVar(&f.SHA256, "sha256", "", "checksum that the file must have, in hexadecimal")
	fl.DurationVar(&f.Drain, "drain", time.Hour, "how long the old engine keeps open connections at most")
	return newRole(l, cmd, f, &f.Process, "worker", func() error {
		if b, err := hex.DecodeString(f.SHA256); f.SHA256 != "" && (err != nil || len(b) != sha256.Size) {
			return errMustBe("--sha256", strconv.Quote(f.SHA256), "64 hexadecimal digits")
		}
		if f.Drain < 0 || f.Drain > longestDrain {
			return errMustBe("--drain", f.Drain, "0s to 24h")
		}
		return l.dataDir(&f.DataDir, "worker")
	})
}

func (l *Line) engineRole() *role[EngineFlags] {
	f := &EngineFlags{}
	cmd := &cobra.Command{Use: "engine", Short: "Run the engine of a worker (started by verge worker)", Hidden: true}
	cmd.Flags().StringVar(&f.DataDir, "data-dir", "", "directory with the configuration that the agent wrote")
	return newRole(l, cmd, f, &f.Process, "", func() error {
		if f.DataDir == "" {
			return errMustBe("--data-dir", `""`, "given")
		}
		return nil
	})
}

func (l *Line) devWorkerRole() *role[DevWorkerFlags] {
	f := &DevWorkerFlags{}
	cmd := &cobra.Command{Use: "dev-worker",
		Short: "Run a worker in a network namespace of its own (started by verge dev)", Hidden: true}
	cmd.Flags().StringVar(&f.DataDir, "data-dir", "", "directory of the worker")
	return newRole(l, cmd, f, &f.Process, "", func() error { return nil })
}

// maxDevWorkers bounds what one process takes on.
const maxDevWorkers = 100

func (l *Line) devRole() *role[DevFlags] {
	f := &DevFlags{}
	var plugins pluginFlags
	cmd := &cobra.Command{Use: "dev", Short: "Run a root, clusters and workers with one command, to try things out"}
	fl := cmd.Flags()
	fl.StringVar(&f.DataDir, "data-dir", "", "directory for all state (default: a temporary one, removed at the end)")
	fl.StringSliceVar(&f.Clusters, "clusters", []string{"edge", "fog", "cloud"}, "names of the clusters")
	fl.IntVar(&f.Workers, "workers", 2, "workers in each cluster")
	fl.StringVar(&f.API, "api", "127.0.0.1:"+rpc.RootAPIPort, "address of the HTTP interface")
	fl.StringVar(&f.Gateway, "gateway", "127.0.0.1:8480", "address for users' requests; none for no gateway")
	fl.StringVar(&f.GatewayTLS, "gateway-tls", "",
		"address for users' requests with TLS; none for none (default: 127.0.0.1:8443; none with another --gateway)")
	fl.StringVar(&f.Scheduler, "scheduler", place.ROM,
		"scheduler for services whose descriptor names none, as for verge cluster")
	fl.StringVar(&f.Network, "network", wire.NetworkAuto,
		"how instances are connected: overlay (the service network, each worker a process in a network namespace of "+
			"its own; needs root on Linux), loopback (they share this machine's ports) or auto (overlay if the "+
			"machine can, else loopback)")
	plugins.add(fl)
	return newRole(l, cmd, f, &f.Process, "", func() (err error) {
		if !slices.Contains([]string{wire.NetworkAuto, wire.NetworkOverlay, wire.NetworkLoopback}, f.Network) {
			return errMustBe("--network", strconv.Quote(f.Network), "auto, overlay or loopback")
		}
		if f.Plugins, err = plugins.settle(); err != nil {
			return err
		}
		if err := defaultScheduler(f.Scheduler, f.Plugins); err != nil {
			return err
		}
		if f.GatewayTLS == "" && !fl.Changed("gateway") {
			f.GatewayTLS = "127.0.0.1:8443"
		}
		if f.Workers < 1 || f.Workers > maxDevWorkers {
			return errMustBe("--workers", f.Workers, "1 to 100")
		}
		if len(f.Clusters) == 0 {
			return errMustBe("--clusters", `""`, "at least one name")
		}
		noneIsEmpty(&f.Gateway, &f.GatewayTLS)
		return firstError(optionalAddress("--gateway-tls", f.GatewayTLS), labels("--clusters", f.Clusters),
			distinct("--clusters", f.Clusters), address("--api", f.API), optionalAddress("--gateway", f.Gateway))
	})
}
