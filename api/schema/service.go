package schema

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// values makes a closed set: those that work, and those that come later.
func values(now string, later, instead string) []Value {
	var list []Value
	for _, v := range strings.Fields(now) {
		list = append(list, Value{Value: v, Support: Enforced})
	}
	for _, v := range strings.Fields(later) {
		list = append(list, Value{Value: v, Support: Refused, Instead: instead})
	}
	return list
}

func applicationRows() []FieldSpec {
	return []FieldSpec{
		{Path: "application", Required: true, Pattern: pattern.Label,
			Note: "Name of the application, unique at a root: lower-case letters, digits and -, beginning with a letter, at most 63."},
		{Path: "namespace", Default: api.DefaultNamespace, Pattern: pattern.Label,
			Note: "The owner of the application and its secrets. Written like the name of an application."},
		{Path: "services", Required: true, Min: 1, Max: api.MaxServices, Keys: pattern.Label,
			Note: "The services by name. A name is written like that of the application."},
		{Path: "services.*.runtime", Default: "container with `image`, wasm with `module`, otherwise process",
			Values: values("process container wasm", "vm", "write process, container or wasm"),
			Note: "What runs an instance. process: a program of the worker's machine; container: an image, run " +
				"by the machine's containerd; wasm: a function, a WebAssembly module that answers requests."},
		{Path: "services.*.image", Pattern: pattern.Image,
			Note: "Image of a container: a reference as for docker pull, or the name of an image that was " +
				"imported with verge image load. Required for a container, and only there."},
		{Path: "services.*.pull", Default: "missing (of a container)", Values: values("always missing never", "", ""),
			Note: "When the image is fetched: at each start, if it is missing on the worker, or never."},
		{Path: "services.*.user", Pattern: pattern.User, Default: "that of the image; of a process one of its own",
			Note: "User that an instance runs as, by name or number, with or without :group. In a container it is one of the " +
				"image. By default a process runs as a user of its own, with no capability except to listen at the ports below " +
				"1024 that it names. A user of the worker's machine, such as root, must be allowed for the namespace (verge " +
				"namespace standing, host-root or host-user) and by the worker (verge worker --allow-host-user)."},
		{Path: "services.*.module", Pattern: pattern.Module,
			Note: "Module of a function: the name of an object (functions/hello.wasm), or the absolute path of a " +
				"file of the worker. Required for wasm, and only there."},
		{Path: "services.*.command", Min: 1,
			Note: "The program and its leading arguments. ${VAR} is replaced by the variable, $$ by a dollar. " +
				"Required for a process, not allowed for wasm; for a container it replaces the image's entry " +
				"point and arguments."},
		{Path: "services.*.args",
			Note: "Arguments after those of command, with the same replacements. For a container without command " +
				"they replace the image's arguments. A function gets them after its name."},
		{Path: "services.*.env", Keys: pattern.Env,
			Note: "Environment of the instance. Numbers and booleans are taken as written. ${VAR} is replaced by " +
				"a variable of Verge, never by another one of env. A name has visible ASCII characters except =; " +
				"only names of letters, digits and _ can be referred to."},
		{Path: "services.*.env_secrets", Keys: pattern.Env, Pattern: pattern.Label, Max: api.MaxSecrets,
			Note: "Variables whose values are secrets: names of variables with names of secrets of the " +
				"namespace. None may be in env too, and none can be used as ${VAR}, because it would show in the " +
				"list of processes."},
	}
}

func filesRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.files", Keys: pattern.File, Max: api.MaxFiles,
			Note: "Files of an instance, by path below its working directory; in a container the path may be " +
				"absolute. Each has exactly one of content and secret."},
		{Path: "services.*.files.*.content", Note: "The text of the file, with the same replacements as args."},
		{Path: "services.*.files.*.secret", Pattern: pattern.Label,
			Note: "Name of a secret of the namespace, whose value becomes the file."},
		{Path: "services.*.files.*.mode", Default: api.DefaultFileMode.String(), Min: 1, Max: 0o777,
			Note: "Permissions in octal, as for chmod."},
		{Path: "services.*.volumes", Max: api.MaxVolumes,
			Note: "Directories that outlive an instance, or are in memory. Each has exactly one of name, host " +
				"and tmpfs."},
		{Path: "services.*.volumes[].path", Required: true, Pattern: pattern.File,
			Note: "Its path below the working directory; in a container it may be absolute."},
		{Path: "services.*.volumes[].name", Pattern: pattern.Label,
			Note: "A directory that the worker makes for each instance and keeps when the instance ends. It pins " +
				"the instance to its worker until that worker is removed from the cluster."},
		{Path: "services.*.volumes[].host", Pattern: pattern.HostDir,
			Note: "A directory of the worker, which must be below one that its operator allows."},
		{Path: "services.*.volumes[].tmpfs", Min: 4 << 10, Max: int64(api.MaxBytes),
			Note: "Size of a directory in memory; its contents end with the instance."},
		{Path: "services.*.volumes[].read_only", Note: "true: the instance cannot write to it. Not with tmpfs."},
	}
}

func resourceRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.resources",
			Note: "What one instance reserves on its worker. The sum of the reservations never exceeds the worker's capacity."},
		{Path: "services.*.resources.cpu", Default: api.DefaultCPU.String(), Min: 1, Max: int64(api.MaxCPU),
			Note: "Cores (2, 0.5) or millicores (500m). Where the worker has control groups, busy instances " +
				"share the processor in this proportion."},
		{Path: "services.*.resources.memory", Default: api.DefaultMemory.String(), Min: 1 << 20, Max: int64(api.MaxBytes),
			Note: "128Mi, 1Gi (powers of 1024), 200M (powers of 1000)."},
		{Path: "services.*.resources.disk", Default: api.DefaultDisk.String(), Min: 1 << 20, Max: int64(api.MaxBytes),
			Note: "Reserved on the worker when an instance is placed. What an instance writes is unlimited."},
		{Path: "services.*.resources.vgpus", Default: "none", Min: 1, Max: int64(api.MaxUnits),
			Note: "Graphics processors: whole ones (1, 2), exclusively, or a share of one (0.5). A share is a " +
				"reservation: its use is not enforced. The instance finds its cards in VERGE_DEVICES."},
		{Path: "services.*.resources.vtpus", Default: "none", Min: 1, Max: int64(api.MaxUnits),
			Note: "Tensor processors, as vgpus."},
		{Path: "services.*.resources.bandwidth",
			Note: "Reserved of the worker's connection (verge worker --bandwidth). The sum of the reservations " +
				"never exceeds it; services.*.bandwidth limits the use."},
		{Path: "services.*.resources.bandwidth.in", Default: "none", Min: int64(api.MinBitrate), Max: int64(api.MaxBitrate),
			Note: "To the instance: 10Mbps, 500kbps, 1Gbps."},
		{Path: "services.*.resources.bandwidth.out", Default: "none", Min: int64(api.MinBitrate), Max: int64(api.MaxBitrate),
			Note: "From the instance."},
		{Path: "services.*.devices", Max: api.MaxDeviceTypes,
			Note: "Devices of the worker that an instance needs, one entry for each type. A container gets their nodes and no " +
				"others; a process finds their paths in VERGE_DEVICE_<TYPE>, and may open whatever its user may."},
		{Path: "services.*.devices[].type", Required: true, Pattern: pattern.Label,
			Note: "gpu and tpu, whose number is in resources, or a type that workers have (worker --device), such as camera."},
		{Path: "services.*.devices[].count", Default: "1 device", Min: 1, Max: api.MaxDevices,
			Note: "How many of them, exclusively. Not with gpu and tpu."},
		{Path: "services.*.devices[].model", Default: "any model", Single: true, Max: api.MaxDeviceModels,
			Note: "Accepted models, one or a list: words of the name that verge describe worker shows, such as " +
				"a10 for nvidia-a10. Case and spaces do not matter."},
		{Path: "services.*.priority", Default: "0, which displaces nobody", Max: api.MaxPriority,
			Note: "If no worker has room for an instance, instances with a lower priority in its namespace make " +
				"room: as few and of as low a priority as possible, never one that a volume pins, never an " +
				"equal. Those for which another worker of the cluster has room start there first; the others are " +
				"ended by their stop rules, and placed elsewhere or wait. Against other namespaces it counts up " +
				"to what an administrator allows (verge namespace standing)."},
		{Path: "services.*.limits",
			Note: "The most that one instance may use. Enforced where the worker has control groups; a worker without them says so."},
		{Path: "services.*.limits.cpu", Default: "none: an instance may use idle processors", Min: 1, Max: int64(api.MaxCPU),
			Note: "Not less than resources.cpu."},
		{Path: "services.*.limits.memory", Default: "resources.memory", Min: 1 << 20, Max: int64(api.MaxBytes),
			Note: "Not less than resources.memory. An instance that exceeds it is killed and restarted."},
		{Path: "services.*.replicas", Default: "1", Max: api.MaxReplicas,
			Note: "Number of instances, or {min, max}: then each cluster decides by the requests that enter " +
				"there."},
		{Path: "services.*.replicas.min", Required: true, Max: api.MaxReplicas,
			Note: "Instances that always run. With 0 (and a max) none runs without requests: the first one starts an instance."},
		{Path: "services.*.replicas.max", Default: "min", Max: api.MaxReplicas,
			Note: "The most instances that may run. Above min the service needs a port with protocol http, and no named volume."},
		{Path: "services.*.slo", Default: "none", Min: 1e3, Max: 3600e9,
			Note: "Objective for the time of a request: as many instances run as it takes, within replicas."},
		{Path: "services.*.idle", Default: "60s with replicas.min 0", Min: 1e9, Max: 24 * 3600e9,
			Note: "With replicas.min 0: how long an instance goes on after its last request before it sleeps."},
		{Path: "services.*.bandwidth",
			Note: "Limit of an instance's traffic. It runs only on workers of the service network; nothing is " +
				"reserved."},
		{Path: "services.*.bandwidth.in", Default: "no limit", Min: int64(api.MinBitrate), Max: int64(api.MaxBitrate),
			Note: "To the instance: 10Mbps, 500kbps, 1Gbps. Packets beyond it wait, then are dropped."},
		{Path: "services.*.bandwidth.out", Default: "no limit", Min: int64(api.MinBitrate), Max: int64(api.MaxBitrate),
			Note: "From the instance."},
	}
}

func placementRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.architecture", Single: true, Normal: archName, spellings: slices.Sorted(maps.Keys(otherArchs)),
			Values: values("amd64 arm64 arm 386 riscv64 ppc64le s390x loong64 mips mipsle mips64 mips64le", "", ""),
			Note:   "Processors that the program is built for, one or a list. By default any."},
		{Path: "services.*.location",
			Note: "Instances are placed on workers in this circle. A worker without a location is in none."},
		{Path: "services.*.location.latitude", Required: true, Min: -90, Max: 90, Note: "Degrees, north is positive."},
		{Path: "services.*.location.longitude", Required: true, Min: -180, Max: 180, Note: "Degrees, east is positive."},
		{Path: "services.*.location.radius", Required: true, Min: 1, Max: int64(api.MaxDistance),
			Note: "The greatest distance of a worker from the point."},
		{Path: "services.*.affinity", Note: "Where instances may be placed. Fields left out or empty do not restrict."},
		{Path: "services.*.affinity.cluster", Pattern: pattern.Site, Note: "Names of clusters: one of these."},
		{Path: "services.*.affinity.area", Pattern: pattern.Site,
			Note: "Names of areas: the cluster has one of these."},
		{Path: "services.*.affinity.polygon", Min: 3, Max: api.MaxCorners,
			Note: "Corners of an area in which the worker must be, each [latitude, longitude]; or a GeoJSON " +
				"polygon (a geometry or a feature), which has the longitude first. Sides must not cross."},
		{Path: "services.*.affinity.labels", Keys: pattern.LabelKey, Pattern: pattern.LabelValue, Max: api.MaxLabels,
			Note: "Labels that the worker must have, all of them. A worker also has those of its cluster."},
		{Path: "services.*.anti_affinity", Note: "Where instances may not be placed."},
		{Path: "services.*.anti_affinity.cluster", Pattern: pattern.Site,
			Note: "Names of clusters: none of these."},
		{Path: "services.*.anti_affinity.area", Pattern: pattern.Site,
			Note: "Names of areas: the cluster has none of these."},
		{Path: "services.*.anti_affinity.labels", Keys: pattern.LabelKey, Pattern: pattern.LabelValue, Max: api.MaxLabels,
			Note: "Labels that the worker must not have."},
		{Path: "services.*.anti_affinity.service", Pattern: pattern.Label,
			Note: "Services of the application that must not run on the same worker. The service itself may be " +
				"one: then a worker runs at most one instance of it."},
		{Path: "services.*.spread", Default: "soft", Values: values("soft none", "", ""),
			Note: "soft prefers workers and clusters with fewer instances of the same service; none fills the " +
				"cluster with most room first."},
		{Path: "services.*.scheduler", Default: "of the cluster: rom",
			Values: values("rom ldp spread throughput drf drf-worstfit drf-bestfit drf-tightest nearest-demand plugin", "", ""),
			Note: "How a cluster picks the worker. rom: best fit on the scarcest resource; ldp: expected to be " +
				"nearest to what latency names; spread: as Kubernetes by default; throughput: fills the fastest " +
				"first, by the profile of the service; drf…: places what waits in rounds, the smallest share of " +
				"the cluster first, and scores workers by alignment, worst fit, best fit or tightest fit; " +
				"nearest-demand: where the requests come from, in rounds as well, and follows them; plugin: asks " +
				"a program. With throughput and drf…, spread: soft decides between equal scores."},
		{Path: "services.*.plugin", Pattern: pattern.Label,
			Note: "With `scheduler: plugin`: the program that ranks the workers, by the name that clusters give it (`verge " +
				"cluster --plugin NAME=URL`, see [plugins.md](plugins.md))."},
	}
}

func networkRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.ports", Max: api.MaxPorts,
			Note: "Ports on which an instance listens. It finds the numbers in `PORT` (first port) and `PORT_<NAME>`."},
		{Path: "services.*.ports[].name", Default: "of the first port: its protocol", Pattern: pattern.Label,
			Note: "Unique in the service. Only the first port may leave it out."},
		{Path: "services.*.ports[].protocol", Default: "http with an ingress or the name http, else tcp",
			Values: values("tcp http grpc udp", "", ""),
			Note: "Protocol of the port. grpc is HTTP/2 without TLS, as gRPC servers speak it. http and grpc are " +
				"routed by request; a port that speaks anything else, TLS included, is tcp. A service with a udp " +
				"port runs only on workers of the service network, and only their instances reach that port."},
		{Path: "services.*.ports[].number", Default: "chosen by Verge", Min: 1, Max: 65535,
			Note: "For a program that listens on this number whatever `PORT` says. In the service network each " +
				"instance has all ports, and others reach the service at this number. Elsewhere instances share " +
				"the worker's ports, and one whose number is taken does not start. Not with wasm."},
	}
}

// ingressRows are how ports are published.
func ingressRows() []FieldSpec {
	const in = "services.*.ports[].ingress"
	tls := values("acme self-signed off", "", "")
	return []FieldSpec{
		{Path: in,
			Note: "Publishes the port on every gateway: an http port under a host name, a tcp or udp port at a " +
				"port of the gateways."},
		{Path: in + ".host", Pattern: pattern.Host, Normal: strings.ToLower,
			Note: "Host name of an http port, required for it. `*.example.org` is every name with one more label " +
				"that nobody publishes itself. A host belongs to one namespace; verge namespace standing says " +
				"which hosts it may publish, and has to allow localhost."},
		{Path: in + ".paths", Default: "all of them", Max: api.MaxIngressPaths, Pattern: pattern.IngressPath, Single: true,
			Note: "Prefixes of paths, by whole segments: /api is /api and /api/x, not /apis. The longest wins; " +
				"host and path together are unique at a root. Other paths of the host may lead to other " +
				"services, also of other applications of the namespace."},
		{Path: in + ".strip_prefix", Default: "false: it stays",
			Note: "true: the service sees the path without the prefix, which is then in X-Forwarded-Prefix."},
		{Path: in + ".tls", Default: "off: none", Values: tls,
			Note: "Source of the host's certificate. acme: an authority such as Let's Encrypt, by the settings " +
				"of each gateway; self-signed: made by the gateway, for trying things out; {secret: NAME}: a " +
				"secret of the namespace with chain and private key in PEM. Gateways serve TLS at --gateway-tls."},
		{Path: in + ".tls.mode", Values: tls, Note: "As above."},
		{Path: in + ".tls.secret", Pattern: pattern.Label,
			Note: "Name of the secret (verge secret set NAME --cert FILE --key FILE). Only gateways get it."},
		{Path: in + ".redirect", Default: "true with tls",
			Note: "Redirects requests without TLS to the same address with it. false serves them too."},
		{Path: in + ".rate_limit",
			Note: "Limit for each client at each gateway; a client is an IPv4 address or a /64 of IPv6. Beyond " +
				"it: 429 with Retry-After. For a tcp port it counts connections, and closes those beyond."},
		{Path: in + ".rate_limit.requests", Required: true, Min: 1, Max: api.MaxRate, Note: "Requests a second."},
		{Path: in + ".rate_limit.burst", Default: "as requests", Min: 1, Max: api.MaxRate,
			Note: "Requests at once, after a pause."},
		{Path: in + ".max_body", Default: "none", Min: 1, Max: int64(api.MaxBytes),
			Note: "The largest body of a request; beyond it: 413."},
		{Path: in + ".body_timeout", Default: "60s; none for streams over HTTP/2", Min: 1e9, Max: 24 * 3600e9,
			Note: "The longest pause of a client within a request body."},
		{Path: in + ".load_report", Default: "false: it is removed",
			Note: "true: answers keep the instance's load report (ORCA, endpoint-load-metrics; for gRPC clients " +
				"in the trailers too), for balancers in front that use it. It tells everybody how busy the " +
				"service is."},
		{Path: in + ".port", Min: 1, Max: 65535,
			Note: "Port of the gateways for a tcp or udp port, required for it; unique at a root for each " +
				"protocol. verge namespace standing says which ports a namespace may publish."},
		{Path: in + ".proxy_protocol", Default: "false: it is unknown",
			Note: "true: tells the service the client's address by the PROXY protocol, version 2: before the " +
				"first byte of a connection, in front of each datagram."},
	}
}

// policyRows are how requests are given to replicas.
func policyRows() []FieldSpec {
	names := values(strings.Join(api.PolicyNames, " "), "", "")
	return []FieldSpec{
		{Path: "services.*.policy", Default: "fastest for ports with protocol http or grpc, round-robin for others",
			Values: names,
			Note: "How requests are given to ready instances: a name, or a mapping with a name and parameters. " +
				"round-robin, random: all alike; weighted: by what each worker was measured to do (verge " +
				"profile), else by its processors, divided among its replicas of the service; billiard: the same " +
				"shares in the most even order; fastest: where it costs least by distance, execution time, queue " +
				"and size; least-connections: the fewest requests in flight; p2c: the better of two random ones; " +
				"least-response: the shortest queue by capacity (these are for http and grpc: for other ports " +
				"they give equal shares, fastest more to near ones); closest: the nearest by round trip time; " +
				"local: those on the same worker, else its fallback; proximity: prefers near ones and leaves the " +
				"others a share; instance: one replica."},
		{Path: "services.*.policy.name", Required: true, Values: names, Note: "As above."},
		{Path: "services.*.policy.alpha", Default: fmt.Sprintf("%g (proximity)", api.DefaultAlpha), Max: 1,
			Note: "Of proximity: 0 spreads evenly, 1 goes by distance alone. The imbalance grows linearly; verge " +
				"route plan predicts a value."},
		{Path: "services.*.policy.beta", Default: fmt.Sprintf("%g (proximity)", api.DefaultBeta), Max: api.MaxBeta,
			Note: "Of proximity: how steeply the share falls with the distance, above 0. No effect with decay: inverse."},
		{Path: "services.*.policy.decay", Default: api.DefaultDecay + " (proximity)",
			Values: values("inverse power exponential", "", ""),
			Note:   "Of proximity: the share by the round trip l in ms: 1/l, l^-beta or e^(-beta*l)."},
		{Path: "services.*.policy.localrtt", Default: "a tenth less than the nearest other worker's", Min: 1e3, Max: 10e9,
			Note: "Of proximity: the assumed round trip to instances on the same worker, which would otherwise " +
				"draw nearly everything."},
		{Path: "services.*.policy.fallback", Default: api.DefaultFallback + " (local)",
			Values: values(strings.Join(api.PolicyFallbacks, " "), "", ""),
			Note:   "Of local: the policy if the worker has no instance."},
		{Path: "services.*.policy.ordinal", Max: api.MaxReplicas - 1,
			Note: "Of instance: the number of the replica, from 0."},
		{Path: "services.*.concurrency",
			Default: "unlimited; 10 with queue_max, slo, a range of replicas, or runtime wasm", Max: api.MaxConcurrency,
			Note: "Requests that an instance works on at a time; 0: unlimited. The others wait in front of it, " +
				"in order. Open WebSockets and event streams do not count. The service needs a port with " +
				"protocol http or grpc."},
		{Path: "services.*.queue_max", Default: "100 with a limit of concurrency", Max: api.MaxQueue,
			Note: "Requests that may wait in front of an instance. When three instances are full (or all, if " +
				"there are fewer), the answer is 503 with Retry-After at once."},
		{Path: "services.*.timeout", Default: "none; 30s for a function", Min: 1e6, Max: 24 * 3600e9,
			Note: "Time until an answer begins, waiting included; then 504. Instances get the rest of it in the " +
				"header Verge-Timeout (ms) and, with gRPC, in grpc-timeout; clients may ask for less with the " +
				"same headers."},
		{Path: "services.*.export",
			Note: "true: instances of other applications may reach the service in the service network, by its " +
				"full name. By default only those of its own may. With loopback, where instances share the " +
				"machine's network, all may."},
		{Path: "services.*.service_ip", Pattern: pattern.Address,
			Note: "The IPv4 address of the service on every worker of the service network, from the root's " +
				"--network-services, for its default policy. By default each worker chooses one; the IPv6 " +
				"address follows from the name."},
	}
}

// checkRows are those of the three kinds of checks.
func checkRows() []FieldSpec {
	var rows []FieldSpec
	for _, c := range []struct {
		name, when, passes, fails, interval, failures, def string
	}{
		{"startup", "An instance is Running once it has passed this; then the other checks begin.", "Started when",
			"Failed probes after which the instance is ended and restarted.",
			api.DefaultInterval.String(), strconv.Itoa(api.DefaultStartupFailures),
			"none: an instance is Running when it has started"},
		{"readiness", "When an instance may receive requests.", "Ready while",
			"Failed probes in a row that make a ready instance unready.",
			api.DefaultInterval.String(), strconv.Itoa(api.DefaultFailures),
			"tcp to the first port; without ports an instance is ready when it has started"},
		{"liveness", "An instance that fails it is ended and restarted as restart says.", "Alive while",
			"Failed probes in a row that end the instance.",
			api.DefaultLivenessInterval.String(), strconv.Itoa(api.DefaultFailures), "none"},
	} {
		in := func(field string) string { return "services.*." + c.name + field }
		rows = append(rows,
			FieldSpec{Path: in(""), Default: c.def, Note: c.when + " Exactly one of http, tcp and exec."},
			FieldSpec{Path: in(".http"), Note: c.passes + " a GET is answered with a status of 200 to 399."},
			FieldSpec{Path: in(".http.path"), Required: true, Pattern: pattern.Path,
				Note: "Path of the request, beginning with /."},
			FieldSpec{Path: in(".http.port"), Default: "the first port", Note: "Name of a port of the service."},
			FieldSpec{Path: in(".tcp"), Note: c.passes + " connections are accepted. {} checks the first port."},
			FieldSpec{Path: in(".tcp.port"), Default: "the first port", Note: "Name of a port of the service."},
			FieldSpec{Path: in(".exec"), Note: c.passes + " a command beside the instance exits with 0."},
			FieldSpec{Path: in(".exec.command"), Required: true, Min: 1,
				Note: "The program and its arguments, with the same replacements as args."},
			FieldSpec{Path: in(".interval"), Default: c.interval, Min: 100e6, Max: 3600e9,
				Note: "Time between probes. Until the first pass, probes are more frequent."},
			FieldSpec{Path: in(".timeout"), Default: api.DefaultTimeout.String(), Min: 10e6, Max: 300e9,
				Note: "Time after which a probe has failed."},
			FieldSpec{Path: in(".failures"), Default: c.failures, Min: 1, Max: 1000, Note: c.fails},
		)
	}
	return rows
}

func lifeRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.restart", Note: "What happens when an instance exits."},
		{Path: "services.*.restart.policy", Default: "always", Values: values("always on-failure never", "", ""),
			Note: "on-failure restarts after an exit code other than 0."},
		{Path: "services.*.restart.max_restarts", Default: "5", Max: 1000,
			Note: "Restarts in a row on one worker, without 60s of calm between, before the instance is placed elsewhere."},
		{Path: "services.*.restart.delay", Default: api.DefaultDelay.String(), Min: 1e6, Max: 3600e9,
			Note: "Wait before the first restart in a row. Each further one waits twice as long, and each up to " +
				"a quarter less at random, so that not everything starts at once."},
		{Path: "services.*.restart.max_delay", Default: api.DefaultMaxDelay.String(), Min: 1e6, Max: 24 * 3600e9,
			Note: "The longest wait before a restart."},
		{Path: "services.*.stop", Note: "How an instance is ended."},
		{Path: "services.*.stop.signal", Default: "TERM", Values: values("TERM INT QUIT HUP USR1 USR2 WINCH KILL", "", ""),
			Normal: signalName,
			Note:   "With or without SIG."},
		{Path: "services.*.stop.grace", Default: api.DefaultGrace.String(), Min: 1e6, Max: 600e9,
			Note: "Time from the signal to SIGKILL. To end at once write signal: KILL."},
		{Path: "services.*.replace_after", Default: api.DefaultReplaceAfter.String(), Max: int64(api.MaxDuration),
			Note: "How long after its worker became suspect (silent or disconnected) an instance is replaced; 0: at once."},
		{Path: "services.*.on_return", Default: "original",
			Values: values("original replacement newest", "best", "write original, replacement or newest"),
			Note:   "Which instance stays when a lost worker comes back."},
	}
}

// nearRows are what an instance must be near.
func nearRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.latency", Max: 8,
			Note: "What an instance must be near. A worker gets one only if it is known to be near enough, with " +
				"every scheduler."},
		{Path: "services.*.latency[].to", Required: true,
			Note: "A service of the application, one instance of which must be near enough; a place " +
				"(latitude,longitude); or an address of users or data (192.0.2.7, users.example.org, " +
				"users.example.org:443, https://data.example.org/file), which workers measure."},
		{Path: "services.*.latency[].max", Min: 1e3, Max: 10e9,
			Note: "The longest round trip, measured by workers or estimated from coordinates. To a place it is " +
				"estimated by the great circle: 20µs for each km."},
		{Path: "services.*.latency[].distance", Min: 1, Max: int64(api.MaxDistance),
			Note: "The longest great-circle distance between the worker, which must have a location, and the " +
				"place or the worker of the service; in another cluster, all its workers."},
		{Path: "services.*.convergence_time", Default: "10s if omitted; 2s for the answer of a plugin", Min: 1e6,
			Max: 3600e9,
			Note: "The longest that a cluster's decision waits for measurements and for what must be near. Then " +
				"it takes the best that is known, or returns the instance to the root with the reason."},
		{Path: "services.*.rigidness", Default: "0.5 if omitted", Max: 1,
			Note: "Of the last 30 samples, the share 1 - rigidness may be beyond latency before an instance " +
				"moves to a worker that is near enough: 1 moves it at the first, 0 never. A service moves at " +
				"most once in 5 minutes, unless all 30 are too far."},
		{Path: "services.*.data", Max: 64,
			Note: "What an instance reads: objects of the namespace by name (models/cats.onnx), and hosts by URL " +
				"(https://data.example.org/file). Clusters that have more of the objects, as their own or as a " +
				"copy, are preferred; in a cluster, workers with shorter round trips to the hosts, to the " +
				"millisecond. It is a preference when an instance is placed: latency, affinity and room come " +
				"first."},
	}
}

// otherArchs are names of other tools for those of Go.
var otherArchs = map[string]string{
	"x86_64": "amd64", "x86-64": "amd64", "x64": "amd64", "aarch64": "arm64",
	"armv6l": "arm", "armv7l": "arm", "armhf": "arm", "i386": "386", "i686": "386", "x86": "386",
}

// archName turns the names of other tools into those of Go.
func archName(s string) string {
	s = strings.ToLower(s)
	if name, known := otherArchs[s]; known {
		return name
	}
	return s
}

// signalName turns "SIGTERM" and "term" into "TERM".
func signalName(s string) string {
	return strings.TrimPrefix(strings.ToUpper(s), "SIG")
}
