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
			Note: "Name of the application, unique at a root: small letters, digits and -, beginning with a letter, at most 63."},
		{Path: "namespace", Default: api.DefaultNamespace, Pattern: pattern.Label,
			Note: "Who owns the application and its secrets. Written as the name of an application."},
		{Path: "services", Required: true, Min: 1, Max: api.MaxServices, Keys: pattern.Label,
			Note: "The services by name. A name is written as that of the application."},
		{Path: "services.*.runtime", Default: "container with `image`, wasm with `module`, otherwise process",
			Values: values("process container wasm", "vm", "write process, container or wasm"),
			Note: "What runs an instance (other tools call it virtualization). A process is a program of the worker's " +
				"machine, a container is made of an image by the machine's containerd, wasm is a function: a WebAssembly module " +
				"that answers requests."},
		{Path: "services.*.image", Pattern: pattern.Image,
			Note: "What a container is made of: a reference as docker pull takes it, or the name of an image that was " +
				"imported with verge image load. Required for a container, and only there."},
		{Path: "services.*.pull", Default: "missing (of a container)", Values: values("always missing never", "", ""),
			Note: "When the image is fetched: at each start, if it is not on the worker, or not at all."},
		{Path: "services.*.user", Pattern: pattern.User, Default: "that of the image; of a process one of its own",
			Note: "User that an instance runs as, by name or number, with :group or without. In a container it is one of the " +
				"image. A process runs as a user of its own that no other instance has, without capabilities but that to listen at the low ports (below 1024) that it names; one of the " +
				"worker's machine, such as root, has to be allowed to the namespace (verge namespace standing, host-root or " +
				"host-user) and by the worker (verge worker --allow-host-user)."},
		{Path: "services.*.module", Pattern: pattern.Module,
			Note: "What a function is made of: the name of an object (functions/hello.wasm), or the absolute path of a file " +
				"of the worker. Required for wasm, and only there."},
		{Path: "services.*.command", Min: 1,
			Note: "The program and its leading arguments. ${VAR} is replaced by the variable, $$ by a dollar. Required for a " +
				"process, and none of wasm; for a container it takes the place of the image's entry point and arguments."},
		{Path: "services.*.args",
			Note: "Arguments after those of command, with the same replacements. For a container without command they take " +
				"the place of the image's arguments. A function gets them after its name."},
		{Path: "services.*.env", Keys: pattern.Env,
			Note: "Environment of the instance. Numbers and truth values are taken as they are written. ${VAR} is replaced by " +
				"a variable of Verge, not by another one of env. A name has any characters of ASCII that can be seen but =; only " +
				"one of letters, digits and _ can be referred to."},
		{Path: "services.*.env_secrets", Keys: pattern.Env, Pattern: pattern.Label, Max: api.MaxSecrets,
			Note: "Variables whose values are secrets: names of variables with names of secrets of the namespace. None may be " +
				"in env too, and none can be written as ${VAR}, because it would show in the list of processes."},
	}
}

func filesRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.files", Keys: pattern.File, Max: api.MaxFiles,
			Note: "Files that an instance finds when it starts, by their path below its working directory, which may be " +
				"absolute in a container. Each has exactly one of content and secret."},
		{Path: "services.*.files.*.content", Note: "The text of the file, with the same replacements as args."},
		{Path: "services.*.files.*.secret", Pattern: pattern.Label,
			Note: "Name of a secret of the namespace, whose value becomes the file."},
		{Path: "services.*.files.*.mode", Default: api.DefaultFileMode.String(), Min: 1, Max: 0o777,
			Note: "Permissions in octal, as for chmod."},
		{Path: "services.*.volumes", Max: api.MaxVolumes,
			Note: "Directories of an instance that outlive it, or that are in memory. Each has exactly one of name, host and " +
				"tmpfs."},
		{Path: "services.*.volumes[].path", Required: true, Pattern: pattern.File,
			Note: "Where the instance finds it, below its working directory; in a container also as an absolute path."},
		{Path: "services.*.volumes[].name", Pattern: pattern.Label,
			Note: "A directory that the worker makes for each instance and keeps when the instance ends. It pins the instance " +
				"to its worker: it is not replaced elsewhere until that worker is removed from the cluster."},
		{Path: "services.*.volumes[].host", Pattern: pattern.HostDir,
			Note: "A directory of the worker, which must be below one that its operator allows."},
		{Path: "services.*.volumes[].tmpfs", Min: 4 << 10, Max: int64(api.MaxBytes),
			Note: "Size of a directory in memory; what is in it ends with the instance."},
		{Path: "services.*.volumes[].read_only", Note: "true: the instance cannot write to it. Not with tmpfs."},
	}
}

func resourceRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.resources",
			Note: "What one instance reserves on its worker. The sum of the reservations never exceeds the worker's capacity."},
		{Path: "services.*.resources.cpu", Default: api.DefaultCPU.String(), Min: 1, Max: int64(api.MaxCPU),
			Note: "Cores (2, 0.5) or thousandths of one (500m). Where the worker has control groups, busy instances share the " +
				"processor in this proportion."},
		{Path: "services.*.resources.memory", Default: api.DefaultMemory.String(), Min: 1 << 20, Max: int64(api.MaxBytes),
			Note: "128Mi, 1Gi (powers of 1024), 200M (powers of 1000)."},
		{Path: "services.*.resources.disk", Default: api.DefaultDisk.String(), Min: 1 << 20, Max: int64(api.MaxBytes),
			Note: "Reserved on the worker when an instance is placed. What an instance writes is not limited by a quota."},
		{Path: "services.*.resources.vgpus", Default: "none", Min: 1, Max: int64(api.MaxUnits),
			Note: "Graphics processors: whole ones (1, 2), which nobody else gets, or a share of one (0.5). The share is a " +
				"reservation: what an instance does with the card is not bounded. It finds which it has in VERGE_DEVICES."},
		{Path: "services.*.resources.vtpus", Default: "none", Min: 1, Max: int64(api.MaxUnits),
			Note: "Tensor processors, as vgpus."},
		{Path: "services.*.resources.bandwidth",
			Note: "Reserved of the worker's connection, as far as its operator has said what it carries (--bandwidth). The " +
				"sum of the reservations never exceeds that; bandwidth bounds what is used."},
		{Path: "services.*.resources.bandwidth.in", Default: "none", Min: int64(api.MinBitrate), Max: int64(api.MaxBitrate),
			Note: "Towards the instance: 10Mbps, 500kbps, 1Gbps."},
		{Path: "services.*.resources.bandwidth.out", Default: "none", Min: int64(api.MinBitrate), Max: int64(api.MaxBitrate),
			Note: "From the instance."},
		{Path: "services.*.devices", Max: api.MaxDeviceTypes,
			Note: "Devices of the worker that an instance needs, one entry for each type. A container gets their nodes and no " +
				"others; a process finds their paths in VERGE_DEVICE_<TYPE>, and may open whatever its user may."},
		{Path: "services.*.devices[].type", Required: true, Pattern: pattern.Label,
			Note: "gpu and tpu, whose number is in resources, or a type that workers have (worker --device), such as camera."},
		{Path: "services.*.devices[].count", Default: "1 device", Min: 1, Max: api.MaxDevices,
			Note: "How many of them, which nobody else gets. Not with gpu and tpu."},
		{Path: "services.*.devices[].model", Default: "any model", Single: true, Max: api.MaxDeviceModels,
			Note: "Models that will do, one or a list: words of the name that verge describe worker shows, such as a10 for " +
				"nvidia-a10. Capitals and spaces do not matter."},
		{Path: "services.*.priority", Default: "0, which displaces nobody", Max: api.MaxPriority,
			Note: "Where no worker has room for an instance, instances of services of its namespace with a lower priority " +
				"make room: as few and of as low a priority as will do, never one that is pinned by a volume. Those for which " +
				"another worker of the cluster has room are started there first; the others are ended by their stop rules, and " +
				"placed elsewhere or wait. Equal ones never make room for each other. Against other namespaces it counts as far " +
				"as an administrator lets it (verge namespace standing), and is bounded by that."},
		{Path: "services.*.limits",
			Note: "What one instance may use at most. Enforced where the worker has control groups; it says when it has none."},
		{Path: "services.*.limits.cpu", Default: "none: an instance may use what is idle", Min: 1, Max: int64(api.MaxCPU),
			Note: "Not less than resources.cpu."},
		{Path: "services.*.limits.memory", Default: "resources.memory", Min: 1 << 20, Max: int64(api.MaxBytes),
			Note: "Not less than resources.memory. An instance that exceeds it is killed and restarted."},
		{Path: "services.*.replicas", Default: "1", Max: api.MaxReplicas,
			Note: "How many instances run: a whole number, or {min, max}: then each cluster decides by the requests that " +
				"enter there."},
		{Path: "services.*.replicas.min", Required: true, Max: api.MaxReplicas,
			Note: "Instances that always run. With 0 (and a max) none runs while nobody asks: the first request starts one."},
		{Path: "services.*.replicas.max", Default: "min", Max: api.MaxReplicas,
			Note: "The most instances that may run. Above min the service needs a port with protocol http, and no named volume."},
		{Path: "services.*.slo", Default: "none", Min: 1e3, Max: 3600e9,
			Note: "Objective for the time of a request: as many instances run as it needs, within replicas."},
		{Path: "services.*.idle", Default: "60s with replicas.min 0", Min: 1e9, Max: 24 * 3600e9,
			Note: "How long after its last request an instance of a service with replicas.min 0 goes on before it sleeps."},
		{Path: "services.*.bandwidth",
			Note: "The most that the network carries for one instance. It runs only on workers of the service network; " +
				"nothing is reserved."},
		{Path: "services.*.bandwidth.in", Default: "not bounded", Min: int64(api.MinBitrate), Max: int64(api.MaxBitrate),
			Note: "Towards the instance: 10Mbps, 500kbps, 1Gbps. Beyond it packets wait, and are dropped at last."},
		{Path: "services.*.bandwidth.out", Default: "not bounded", Min: int64(api.MinBitrate), Max: int64(api.MaxBitrate),
			Note: "From the instance."},
	}
}

func placementRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.architecture", Single: true, Normal: archName, spellings: slices.Sorted(maps.Keys(otherArchs)),
			Values: values("amd64 arm64 arm 386 riscv64 ppc64le s390x loong64 mips mipsle mips64 mips64le", "", ""),
			Note:   "Processors that the program is made for, one or a list. Without it any worker will do."},
		{Path: "services.*.location",
			Note: "Instances are placed on workers whose location is in this circle. A worker that does not know its location " +
				"is in none."},
		{Path: "services.*.location.latitude", Required: true, Min: -90, Max: 90, Note: "Degrees, north is positive."},
		{Path: "services.*.location.longitude", Required: true, Min: -180, Max: 180, Note: "Degrees, east is positive."},
		{Path: "services.*.location.radius", Required: true, Min: 1, Max: int64(api.MaxDistance),
			Note: "The most that a worker may be away from the point."},
		{Path: "services.*.affinity", Note: "Where instances may be placed. What is left out or empty does not restrict."},
		{Path: "services.*.affinity.cluster", Pattern: pattern.Site, Note: "Names of clusters, one of which must be it."},
		{Path: "services.*.affinity.area", Pattern: pattern.Site,
			Note: "Names of areas, one of which the cluster must have."},
		{Path: "services.*.affinity.polygon", Min: 3, Max: api.MaxCorners,
			Note: "Corners of an area, each [latitude, longitude], in which the location of the worker must be; or a polygon " +
				"of GeoJSON (a geometry or a feature), which has the longitude first. Sides must not cross."},
		{Path: "services.*.affinity.labels", Keys: pattern.LabelKey, Pattern: pattern.LabelValue, Max: api.MaxLabels,
			Note: "Labels that the worker must have, all of them. A worker has those of its cluster too."},
		{Path: "services.*.anti_affinity", Note: "Where instances may not be placed."},
		{Path: "services.*.anti_affinity.cluster", Pattern: pattern.Site,
			Note: "Names of clusters, none of which may be it."},
		{Path: "services.*.anti_affinity.area", Pattern: pattern.Site,
			Note: "Names of areas, none of which the cluster may have."},
		{Path: "services.*.anti_affinity.labels", Keys: pattern.LabelKey, Pattern: pattern.LabelValue, Max: api.MaxLabels,
			Note: "Labels none of which the worker may have."},
		{Path: "services.*.anti_affinity.service", Pattern: pattern.Label,
			Note: "Services of the application of which the worker may run no instance. The service itself may be one: then a " +
				"worker runs at most one instance of it."},
		{Path: "services.*.spread", Default: "soft", Values: values("soft none", "", ""),
			Note: "soft prefers workers and clusters with fewer instances of the same service; none does not, and fills the " +
				"cluster with most room first."},
		{Path: "services.*.scheduler", Default: "of the cluster: rom",
			Values: values("rom ldp spread throughput drf drf-worstfit drf-bestfit drf-tightest nearest-demand plugin", "", ""),
			Note: "How a cluster picks the worker: rom takes the one that fits best on the scarcest resource; ldp the one " +
				"that is expected to be nearest to what latency names; " +
				"spread is the default of Kubernetes; throughput fills the fastest first, by the profile of the service; the drf " +
				"ones place what waits in rounds, " +
				"who has the smallest share of the cluster first, and score workers by alignment, worst fit, best fit or the " +
				"tightest fit; " +
				"nearest-demand goes where the requests come from, in rounds as well, and follows them when they move; plugin " +
				"asks a program. " +
				"With throughput and drf the score comes first, and spread: soft decides between equals."},
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
			Note: "What is spoken on the port; grpc is HTTP/2 without TLS, as servers of gRPC have it. http and grpc are " +
				"looked at request by request, so that a port which speaks something else, TLS included, is tcp. A service with " +
				"a udp port runs only on workers of the service network, and only their instances reach that port."},
		{Path: "services.*.ports[].number", Default: "chosen by Verge", Min: 1, Max: 65535,
			Note: "For a program that listens on this number whatever `PORT` says. In the service network each instance has " +
				"all ports for itself, and others reach the service at this number; elsewhere instances share the ports of their " +
				"worker, and one whose number is taken there does not start. Not of wasm."},
	}
}

// ingressRows are how ports are published.
func ingressRows() []FieldSpec {
	const in = "services.*.ports[].ingress"
	tls := values("acme self-signed off", "", "")
	return []FieldSpec{
		{Path: in,
			Note: "Publishes the port on every gateway: one for http under a host name, one for tcp or udp at a port of the " +
				"gateways."},
		{Path: in + ".host", Pattern: pattern.Host, Normal: strings.ToLower,
			Note: "Host name of the requests that belong to an http port, which must have one. `*.example.org` is every name " +
				"with one label more that nobody publishes itself. A host belongs to one namespace; which it may publish says " +
				"its standing (verge namespace standing), which localhost needs."},
		{Path: in + ".paths", Default: "all of them", Max: api.MaxIngressPaths, Pattern: pattern.IngressPath, Single: true,
			Note: "What the paths of these requests begin with, by whole segments: /api is /api and /api/x, not /apis. The " +
				"longest counts; host and path together are unique at a root. Other paths of the host may lead to other " +
				"services, also of other applications of the namespace."},
		{Path: in + ".strip_prefix", Default: "it is left",
			Note: "true: the service sees the path without that beginning, which is in X-Forwarded-Prefix then."},
		{Path: in + ".tls", Default: "off: none", Values: tls,
			Note: "Where the certificate of the host is from: acme is an authority such as Let's Encrypt, by the settings of " +
				"each gateway; self-signed is made by the gateway, for trying things out; {secret: NAME} is a secret of the " +
				"namespace with the chain and its private key in PEM. Gateways serve TLS at --gateway-tls."},
		{Path: in + ".tls.mode", Values: tls, Note: "As above."},
		{Path: in + ".tls.secret", Pattern: pattern.Label,
			Note: "Name of the secret (verge secret set NAME --cert FILE --key FILE). It is given to gateways alone."},
		{Path: in + ".redirect", Default: "true where there is tls",
			Note: "Requests without TLS are sent to the same address with it. false serves them too."},
		{Path: in + ".rate_limit",
			Note: "What each client may send to the port at each gateway: a client is an IPv4 address or a /64 of IPv6. More " +
				"is answered with 429 and Retry-After; of a tcp port, connections are what is counted, and more are closed."},
		{Path: in + ".rate_limit.requests", Required: true, Min: 1, Max: api.MaxRate, Note: "Requests a second."},
		{Path: in + ".rate_limit.burst", Default: "as requests", Min: 1, Max: api.MaxRate,
			Note: "Requests at once, after a pause."},
		{Path: in + ".max_body", Default: "none", Min: 1, Max: int64(api.MaxBytes),
			Note: "The largest body of a request; more is answered with 413."},
		{Path: in + ".body_timeout", Default: "60s; none for streams over HTTP/2", Min: 1e9, Max: 24 * 3600e9,
			Note: "How long a client may send nothing of a body that it has begun."},
		{Path: in + ".load_report", Default: "it is taken out",
			Note: "true: answers leave the gateway with the load report of the instance (ORCA, endpoint-load-metrics; to " +
				"clients of gRPC in the trailers too), for balancers in front that choose by it. It tells everybody how busy the " +
				"service is."},
		{Path: in + ".port", Min: 1, Max: 65535,
			Note: "Port of the gateways at which a tcp or udp port is published, which must have one; unique at a root for " +
				"each protocol. The standing of the namespace says which it may publish (verge namespace standing)."},
		{Path: in + ".proxy_protocol", Default: "it is not told",
			Note: "true: the service is told the address of the client by the PROXY protocol, version 2: before the first " +
				"byte of a connection, in front of each datagram."},
	}
}

// policyRows are how requests are given to replicas.
func policyRows() []FieldSpec {
	names := values(strings.Join(api.PolicyNames, " "), "", "")
	return []FieldSpec{
		{Path: "services.*.policy", Default: "fastest for ports with protocol http or grpc, round-robin for others",
			Values: names,
			Note: "How requests are given to the ready instances: a name, or a mapping with a name and what that policy can " +
				"be told. " +
				"round-robin and random give all the same; weighted gives by what each worker was measured to do (verge " +
				"profile), else by its processors, divided among its replicas of the service; billiard gives the same shares in " +
				"the most even order; " +
				"fastest sends each request where it costs least by distance, execution time, queue and size; least-connections " +
				"takes the replica with the fewest requests in flight, p2c the better of two by chance, least-response the " +
				"shortest queue by capacity (these are for http and grpc: connections of other ports they give equal shares, " +
				"fastest more to the near); closest takes the nearest by round trip time; local takes those on the own worker, " +
				"and where there are none its fallback; " +
				"proximity prefers near ones and leaves the others a share; instance takes one replica."},
		{Path: "services.*.policy.name", Required: true, Values: names, Note: "As above."},
		{Path: "services.*.policy.alpha", Default: fmt.Sprintf("%g (proximity)", api.DefaultAlpha), Max: 1,
			Note: "Of proximity: 0 spreads evenly, 1 goes by distance alone. The imbalance grows linearly with it; verge " +
				"route plan says what a value would do."},
		{Path: "services.*.policy.beta", Default: fmt.Sprintf("%g (proximity)", api.DefaultBeta), Max: api.MaxBeta,
			Note: "Of proximity: how steeply the share falls with the distance, above 0. Without effect where decay is inverse."},
		{Path: "services.*.policy.decay", Default: api.DefaultDecay + " (proximity)",
			Values: values("inverse power exponential", "", ""),
			Note:   "Of proximity: the share by the round trip l in ms: 1/l, l^-beta or e^(-beta*l)."},
		{Path: "services.*.policy.localrtt", Default: "a tenth less than the nearest other worker's", Min: 1e3, Max: 10e9,
			Note: "Of proximity: the round trip that counts for instances on the own worker, which would otherwise draw " +
				"nearly everything."},
		{Path: "services.*.policy.fallback", Default: api.DefaultFallback + " (local)",
			Values: values(strings.Join(api.PolicyFallbacks, " "), "", ""),
			Note:   "Of local: the policy where the own worker has no instance."},
		{Path: "services.*.policy.ordinal", Max: api.MaxReplicas - 1,
			Note: "Of instance: the number of the replica, from 0."},
		{Path: "services.*.concurrency",
			Default: "as many as come; 10 with queue_max, slo, a range of replicas, or runtime wasm", Max: api.MaxConcurrency,
			Note: "How many requests an instance works on at a time; 0 is as many as come. The others wait in front of it, in " +
				"the order in which they came. An open WebSocket and a stream of events are none. The service needs a port with " +
				"protocol http or grpc."},
		{Path: "services.*.queue_max", Default: "100 where there is a bound to concurrency", Max: api.MaxQueue,
			Note: "How many requests may wait in front of an instance. Where all instances have as many, the answer is 503 " +
				"with Retry-After at once."},
		{Path: "services.*.timeout", Default: "none", Min: 1e6, Max: 24 * 3600e9,
			Note: "Time until an answer begins, waiting included; then it is 504. Instances are told what is left of it in " +
				"the header Verge-Timeout (ms) and, with gRPC, in grpc-timeout; clients may say less by the same headers."},
		{Path: "services.*.export",
			Note: "true: instances of other applications may reach the service in the service network, by its full name; else " +
				"only those of its own may. Where workers share the machine's network (loopback), all may anyway."},
		{Path: "services.*.service_ip", Pattern: pattern.Address,
			Note: "The IPv4 address of the service on every worker of the service network, from the root's " +
				"--network-services, for its default policy. Without it each worker chooses one; the IPv6 address follows from " +
				"the name."},
	}
}

// checkRows are those of the three kinds of checks.
func checkRows() []FieldSpec {
	var rows []FieldSpec
	for _, c := range []struct {
		name, when, passes, fails, interval, failures, def string
	}{
		{"startup", "An instance is Running when it has passed this, and the other checks begin then.", "Started when",
			"Failed probes after which the instance is ended and restarted.",
			api.DefaultInterval.String(), strconv.Itoa(api.DefaultStartupFailures),
			"none: an instance is Running when it has started"},
		{"readiness", "When an instance may receive requests.", "Ready while",
			"Failed probes in a row that make a ready instance unready.",
			api.DefaultInterval.String(), strconv.Itoa(api.DefaultFailures),
			"tcp to the first port; without ports an instance is ready when it has started"},
		{"liveness", "An instance that fails it is ended, and restarted by the rule of restart.", "Alive while",
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
			FieldSpec{Path: in(".exec"), Note: c.passes + " a program that is run beside the instance exits with 0."},
			FieldSpec{Path: in(".exec.command"), Required: true, Min: 1,
				Note: "The program and its arguments, with the same replacements as args."},
			FieldSpec{Path: in(".interval"), Default: c.interval, Min: 100e6, Max: 3600e9,
				Note: "Time between probes. What has not passed yet is probed more often."},
			FieldSpec{Path: in(".timeout"), Default: api.DefaultTimeout.String(), Min: 10e6, Max: 300e9,
				Note: "After which a probe has failed."},
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
			Note: "Restarts in a row on one worker, without 60s of calm, before the instance is placed elsewhere."},
		{Path: "services.*.restart.delay", Default: api.DefaultDelay.String(), Min: 1e6, Max: 3600e9,
			Note: "Before the first restart in a row. Each further one waits twice as long, all of them up to a quarter less, " +
				"so that not everything starts at once."},
		{Path: "services.*.restart.max_delay", Default: api.DefaultMaxDelay.String(), Min: 1e6, Max: 24 * 3600e9,
			Note: "The most that a restart waits."},
		{Path: "services.*.stop", Note: "How an instance is ended."},
		{Path: "services.*.stop.signal", Default: "TERM", Values: values("TERM INT QUIT HUP USR1 USR2 WINCH KILL", "", ""),
			Normal: signalName,
			Note:   "With or without SIG."},
		{Path: "services.*.stop.grace", Default: api.DefaultGrace.String(), Min: 1e6, Max: 600e9,
			Note: "Time from the signal to SIGKILL. For an end without delay write signal: KILL."},
		{Path: "services.*.replace_after", Default: api.DefaultReplaceAfter.String(), Max: int64(api.MaxDuration),
			Note: "How long after its worker became suspect (silent or cut off) an instance is replaced; 0 is at once."},
		{Path: "services.*.on_return", Default: "original",
			Values: values("original replacement newest", "best", "write original, replacement or newest"),
			Note:   "Which instance stays when a worker that was believed lost comes back."},
	}
}

// nearRows are what an instance must be near.
func nearRows() []FieldSpec {
	return []FieldSpec{
		{Path: "services.*.latency", Max: 8,
			Note: "What an instance must be near. No worker that is further off, or of which that is not known, is given one, " +
				"whatever the scheduler."},
		{Path: "services.*.latency[].to", Required: true,
			Note: "A service of the application, of which one instance must be near enough; a place (latitude,longitude); or " +
				"an address of users or of data (192.0.2.7, users.example.org, users.example.org:443, " +
				"https://data.example.org/file), which workers measure."},
		{Path: "services.*.latency[].max", Min: 1e3, Max: 10e9,
			Note: "The longest round trip, as workers measure it or expect it by their coordinates. To a place it is " +
				"estimated by the great circle: 20µs for each km."},
		{Path: "services.*.latency[].distance", Min: 1, Max: int64(api.MaxDistance),
			Note: "The longest great circle on the Earth between the worker, which must know its location, and the place or " +
				"the worker of the service; in another cluster, all its workers."},
		{Path: "services.*.convergence_time", Default: "as 10s would be", Min: 1e6, Max: 3600e9,
			Note: "The most that the decision of a cluster where to place may wait for measurements and for what must be " +
				"near. Then the best of what is known is taken, or the cluster returns the instance to the root with the reason."},
		{Path: "services.*.rigidness", Default: "as 0.5 would be", Max: 1,
			Note: "Of the last 30 samples of what latency says, the share 1 - rigidness may be too far before an instance is " +
				"moved to a worker that is near enough: 1 moves it at the first, 0 never. A service moves at most once in 5 " +
				"minutes, unless all 30 are too far."},
		{Path: "services.*.data", Max: 64,
			Note: "What an instance reads: objects of the namespace by name (models/cats.onnx), and hosts by URL " +
				"(https://data.example.org/file). Clusters that have more of the objects, as their own or as a copy, are taken " +
				"first; in a cluster the workers with the shorter round trips to the hosts, to the millisecond. It is a wish, " +
				"which is looked at when an instance is placed: latency, affinity and room come first."},
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
