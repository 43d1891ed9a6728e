package descriptor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/schema"
)

// proof is what shows that one field does what its row of the table of fields
// says.
type proof struct {
	// accept is a descriptor, or the inside of a service, that gives the field; it
	// is accepted, and the value arrives. Where the field is refused, that is the
	// only complaint.
	accept string
	// reject is one with a mistake in the field, says what the complaint has in it.
	reject, says string
	// effect is the test that shows what the field does, as folder.TestName; "" for
	// a field that is refused, of which that is the effect.
	effect string
}

const (
	engine     = "internal/engine."
	placing    = "internal/policy/place."
	lifecycle  = "internal/policy/life."
	inCluster  = "internal/cluster."
	atRoot     = "internal/root."
	router     = "internal/proxy."
	network    = "internal/overlay."
	routing    = "internal/policy/route."
	containers = "internal/runtime/container."
	functions  = "internal/runtime/wasm."
)

// proofs has each field of the descriptor.
var proofs = map[string]proof{
	"application": {"application: shop\nservices: {web: {command: [x]}}", "application: Shop\nservices: {web: {command: [x]}}", "is not a name", atRoot + "TestAnApplicationIsDelegatedAndHolds"},
	"namespace":   {"application: a\nnamespace: team-a\nservices: {web: {command: [x]}}", "application: a\nnamespace: Team\nservices: {web: {command: [x]}}", "is not a name", atRoot + "TestQuotaRefusesAndChangesNothing"},
	"services":    {"application: a\nservices: {web: {command: [x]}}", "application: a\nservices: {}", "there is no service", atRoot + "TestAnApplicationIsDelegatedAndHolds"},

	"services.*.pull_secret":             {"runtime: container\nimage: redis\npull_secret: registry", "runtime: container\nimage: redis\npull_secret: Registry", "is not a name", containers + "TestRegistryCredentials"},
	"services.*.security":                {"runtime: container\nimage: redis\nsecurity: {root: writable}", "security: {root: writable}", "only a container has it", containers + "TestSecurity"},
	"services.*.security.root":           {"runtime: container\nimage: redis\nsecurity: {root: writable}", "runtime: container\nimage: redis\nsecurity: {root: rw}", "is not a value of root", containers + "TestSecurity"},
	"services.*.security.add":            {"runtime: container\nimage: redis\nsecurity: {add: [CAP_NET_RAW, sys_ptrace]}", "runtime: container\nimage: redis\nsecurity: {add: [MKNOD], drop: MKNOD}", "is also in drop", containers + "TestSecurity"},
	"services.*.security.drop":           {"runtime: container\nimage: redis\nsecurity: {drop: ALL}", "runtime: container\nimage: redis\nsecurity: {drop: [EVERYTHING]}", "is not a value of drop", containers + "TestSecurity"},
	"services.*.security.new_privileges": {"runtime: container\nimage: redis\nsecurity: {new_privileges: true}", "runtime: container\nimage: redis\nsecurity: {new_privileges: 1}", "expected true or false", containers + "TestSecurity"},
	"services.*.security.seccomp":        {"runtime: container\nimage: redis\nsecurity: {seccomp: none}", "runtime: container\nimage: redis\nsecurity: {seccomp: off}", "is not a value of seccomp", containers + "TestSecurity"},

	"services.*.image":                 {"runtime: container\nimage: docker.io/library/redis:7", "runtime: process\nimage: redis", "only a container has an image", containers + "TestImageConfiguration"},
	"services.*.pull":                  {"runtime: container\nimage: redis\npull: never", "runtime: container\nimage: redis\npull: sometimes", "is not a value of pull", containers + "TestPull"},
	"services.*.user":                  {"user: www-data:adm", "user: a b", "is not a user", engine + "TestInstancesHaveUsers"},
	"services.*.module":                {"runtime: wasm\nmodule: functions/hello.wasm", "runtime: process\nmodule: hello.wasm", "only a function has a module", functions + "TestAProgramAnswers"},
	"services.*.runtime":               {"runtime: process", "runtime: docker", "is not a value of runtime", placing + "TestSchedule"},
	"services.*.command":               {"command: [x, y]", "command: []", "a process has a program", engine + "TestResolve"},
	"services.*.args":                  {`args: ["${PORT}"]` + "\nports: [{}]", `args: ["${PRT}"]`, "is set neither by env nor by Verge", engine + "TestResolve"},
	"services.*.env":                   {"env: {A: 1}", "env: {PORT: 1}", "is set by Verge", engine + "TestResolve"},
	"services.*.env_secrets":           {"env_secrets: {A: db-password}", "env_secrets: {A: db}\nenv: {A: x}", "is in env too", engine + "TestSecretsOfAnInstance"},
	"services.*.files":                 {"files: {a/b.txt: {content: x}}", "files: {/etc/passwd: {content: x}}", "is absolute", engine + "TestFilesAreThereAtEachStart"},
	"services.*.files.*.content":       {`files: {a: {content: "port=${PORT}"}}` + "\nports: [{}]", "files: {a: {mode: 600}}", "needs exactly one of content and secret", engine + "TestFilesAreThereAtEachStart"},
	"services.*.files.*.secret":        {"files: {a: {secret: tls-key}}", "files: {a: {secret: tls-key, content: x}}", "needs exactly one of content and secret", "internal/runtime/workdir.TestSecretFilesAreInMemory"},
	"services.*.files.*.mode":          {"files: {a: {content: x, mode: 0640}}", "files: {a: {content: x, mode: rw}}", "is not the mode of a file", "internal/runtime/workdir.TestFiles"},
	"services.*.volumes":               {"volumes: [{path: a, name: b}]", "volumes: [{path: a}]", "needs exactly one of name, host and tmpfs", engine + "TestNamedVolumesStay"},
	"services.*.volumes[].path":        {"volumes: [{path: a/b, name: b}]", "volumes: [{path: ../b, name: b}]", "leads out of the working directory", "internal/runtime/workdir.TestVolumes"},
	"services.*.volumes[].name":        {"volumes: [{path: a, name: b}]", "volumes: [{path: a, name: B}]", "is not a name", inCluster + "TestAVolumePinsItsInstance"},
	"services.*.volumes[].host":        {"volumes: [{path: a, host: /srv}]", "volumes: [{path: a, host: srv}]", "is not an absolute path", engine + "TestVolumeOutsideOfWhatIsAllowed"},
	"services.*.volumes[].tmpfs":       {"volumes: [{path: a, tmpfs: 64Mi}]", "volumes: [{path: a, tmpfs: 1}]", "is less than 4Ki", "internal/runtime/workdir.TestTmpfs"},
	"services.*.volumes[].read_only":   {"volumes: [{path: a, host: /srv, read_only: true}]", "volumes: [{path: a, host: /srv, read_only: yes}]", "expected true or false", "internal/runtime/workdir.TestReadOnly"},
	"services.*.resources":             {"resources: {cpu: 1}", "resources: 1", "expected a mapping", placing + "TestFits"},
	"services.*.resources.cpu":         {"resources: {cpu: 250m}", "resources: {cpu: NaN}", "is not an amount of cpu", placing + "TestFits"},
	"services.*.resources.memory":      {"resources: {memory: 1Gi}", "resources: {memory: 0}", "is less than 1Mi", placing + "TestFits"},
	"services.*.resources.disk":        {"resources: {disk: 1Gi}", "resources: {disk: 9999Ti}", "is more than 1024Ti", placing + "TestFits"},
	"services.*.limits":                {"limits: {cpu: 2}", "limits: {disk: 1Gi}", "is not a field", "internal/runtime/cgroup.TestSettings"},
	"services.*.limits.cpu":            {"limits: {cpu: 2}", "limits: {cpu: 1m}", "is less than the 100m that resources.cpu reserves", "internal/runtime/cgroup.TestSettings"},
	"services.*.limits.memory":         {"limits: {memory: 1Gi}", "limits: {memory: 1Mi}", "is less than the 64Mi that resources.memory reserves", "internal/runtime/cgroup.TestSettings"},
	"services.*.bandwidth":             {"bandwidth: {in: 10Mbps}", "bandwidth: 10Mbps", "expected a mapping", network + "TestBandwidth"},
	"services.*.bandwidth.in":          {"bandwidth: {in: 1.5Gbps}", "bandwidth: {in: 10}", "is not a bandwidth", network + "TestBandwidth"},
	"services.*.bandwidth.out":         {"bandwidth: {out: 500kbps}", "bandwidth: {out: 2000Gbps}", "is more than 1000Gbps", network + "TestBandwidth"},
	"services.*.replicas":              {"replicas: 3", "replicas: -1", "is less than 0", atRoot + "TestScalingKeepsWhatRuns"},
	"services.*.replicas.min":          {"replicas: {min: 3, max: 3}", "replicas: {max: 3}", "is missing", atRoot + "TestScalingKeepsWhatRuns"},
	"services.*.replicas.max":          {"replicas: {min: 1, max: 3}\nports: [{protocol: http}]", "replicas: {min: 1, max: 3}", "has no port for requests", inCluster + "TestDemandDecidesHowManyRun"},
	"services.*.slo":                   {"slo: 20ms\nports: [{protocol: http}]", "slo: 20ms", "is for requests", inCluster + "TestDemandDecidesHowManyRun"},
	"services.*.idle":                  {"idle: 5s\nreplicas: {min: 0, max: 3}\nports: [{protocol: http}]", "idle: 5ms", "is less than 1s", engine + "TestSleepAndWake"},
	"services.*.architecture":          {"architecture: [x86_64, ARM64]", "architecture: [z80]", "is not a value of architecture", inCluster + "TestConstraintsChooseTheWorker"},
	"services.*.location":              {"location: {latitude: 48.14, longitude: 11.58, radius: 20km}", "location: {latitude: 48.14}", "is missing: a location is a point and a radius", inCluster + "TestConstraintsChooseTheWorker"},
	"services.*.location.latitude":     {"location: {latitude: 0, longitude: 11, radius: 1m}", "location: {latitude: 90.1, longitude: 11, radius: 1m}", "is not between -90 and 90", placing + "TestScheduleConstraints"},
	"services.*.location.longitude":    {"location: {latitude: 48, longitude: -180, radius: 1m}", "location: {latitude: 48, longitude: .inf, radius: 1m}", "expected a number", placing + "TestScheduleConstraints"},
	"services.*.location.radius":       {"location: {latitude: 48, longitude: 11, radius: 1.5km}", "location: {latitude: 48, longitude: 11, radius: 0km}", "is less than 1m", placing + "TestScheduleConstraints"},
	"services.*.affinity":              {"affinity: {area: [north]}", "affinity: [north]", "expected a mapping", atRoot + "TestAffinityBinds"},
	"services.*.affinity.cluster":      {"affinity: {cluster: [edge]}", "affinity: {cluster: [Edge]}", "is not a name", atRoot + "TestAffinityBinds"},
	"services.*.affinity.area":         {"affinity: {area: [north]}", "affinity: {area: [north, north]}", "is listed twice", atRoot + "TestAffinityBinds"},
	"services.*.affinity.polygon":      {"affinity: {polygon: [[48, 11], [49, 11], [48, 12], [48, 11]]}", "affinity: {polygon: [[48, 11], [49, 12], [49, 11], [48, 12]]}", "side 1 meets side 3", inCluster + "TestConstraintsChooseTheWorker"},
	"services.*.affinity.labels":       {"affinity: {labels: {disk: ssd}}", "affinity: {labels: {-disk: ssd}}", "is not the key of a label", inCluster + "TestConstraintsChooseTheWorker"},
	"services.*.anti_affinity":         {"anti_affinity: {area: [north]}", "anti_affinity: {polygon: []}", "is not a field", atRoot + "TestChangedAffinityMovesBetweenClusters"},
	"services.*.anti_affinity.cluster": {"anti_affinity: {cluster: [edge]}", "affinity: {cluster: [edge]}\nanti_affinity: {cluster: [edge]}", "is also in affinity", atRoot + "TestChangedAffinityMovesBetweenClusters"},
	"services.*.anti_affinity.area":    {"anti_affinity: {area: [north]}", "anti_affinity: {area: north}", "expected a list", atRoot + "TestChangedAffinityMovesBetweenClusters"},
	"services.*.anti_affinity.labels":  {"anti_affinity: {labels: {disk: hdd}}", "affinity: {labels: {a: b}}\nanti_affinity: {labels: {a: b}}", "is also in affinity", inCluster + "TestConstraintsChooseTheWorker"},
	"services.*.anti_affinity.service": {"anti_affinity: {service: [web]}", "anti_affinity: {service: [wbe]}", "did you mean web?", inCluster + "TestServicesAreKeptApart"},
	"services.*.spread":                {"spread: none", "spread: hard", "is not a value of spread", placing + "TestSchedule"},
	"services.*.scheduler":             {"scheduler: rom", "scheduler: best", "is not a value of scheduler", placing + "TestSchedule"},
	"services.*.plugin":                {"scheduler: plugin\nplugin: ilp", "plugin: ilp", "means nothing without scheduler: plugin", inCluster + "TestAPluginChooses"},
	"services.*.ports":                 {"ports: [{name: http}, {name: b}]", "ports: [{name: a}, {}]", "only the first port may leave it out", engine + "TestPorts"},
	"services.*.ports[].name":          {"ports: [{name: admin}]", "ports: [{name: a}, {name: a}]", "is also the name of ports[0]", engine + "TestPorts"},
	"services.*.ports[].number":        {"ports: [{name: a, number: 6379}, {name: b, protocol: udp, number: 6379}]", "ports: [{number: 8001}, {name: b}]", "is the number of ports[0] and of ports[1]", engine + "TestPortNumbers"},
	"services.*.ports[].protocol":      {"ports: [{protocol: http}]", "ports: [{protocol: sctp}]", "is not a value of protocol", router + "TestGatewayRotatesPerRequest"},
	"services.*.policy":                {"policy: round-robin", "policy: fair", "is not a value of policy", router + "TestRotationIsExactOverLocalAndRemote"},
	"services.*.policy.name":           {"policy: {name: closest}", "policy: {alpha: 1}", "is missing", router + "TestClosestFollowsTheDistances"},
	"services.*.policy.alpha":          {"policy: {name: proximity, alpha: 0.5}", "policy: {name: proximity, alpha: 1.5}", "is not between 0 and 1", routing + "TestImbalanceIsLinearInAlpha"},
	"services.*.policy.beta":           {"policy: {name: proximity, beta: 2}", "policy: {name: closest, beta: 2}", "means nothing to closest", routing + "TestBeta"},
	"services.*.policy.decay":          {"policy: {name: proximity, decay: power}", "policy: {name: proximity, decay: linear}", "is not a value of decay", routing + "TestBeta"},
	"services.*.policy.localrtt":       {"policy: {name: proximity, localrtt: 3ms}", "policy: {name: proximity, localrtt: 3}", "is not a duration", routing + "TestMeanLatencyFromLondon"},
	"services.*.policy.fallback":       {"policy: {name: local, fallback: random}", "policy: {name: local, fallback: local}", "is not a value of fallback", routing + "TestWhatAPolicyPrefers"},
	"services.*.policy.ordinal":        {"policy: {name: instance, ordinal: 2}", "policy: {name: closest, ordinal: 2}", "means nothing to closest", router + "TestRoundRobinWantsNoDistances"},
	"services.*.concurrency":           {"concurrency: 0\nports: [{protocol: http}]", "concurrency: 5", "is for requests, for which the service has no port", router + "TestFullQueues"},
	"services.*.queue_max":             {"queue_max: 0\nports: [{protocol: grpc}]", "queue_max: -1\nports: [{protocol: http}]", "is less than 0", router + "TestFullQueues"},
	"services.*.timeout":               {"timeout: 2s\nports: [{protocol: http}]", "timeout: 2\nports: [{protocol: http}]", "is not a duration", router + "TestConformance"},
	"services.*.export":                {"export: true", "export: 1", "expected true or false", network + "TestServices"},
	"services.*.service_ip":            {"service_ip: 10.30.0.10\nports: [{}]", "service_ip: 8.8.8.8\nports: [{}]", "is not a private IPv4 address", network + "TestServices"},
	"services.*.restart":               {"restart: {policy: never}", "restart: never", "expected a mapping", lifecycle + "TestRestartPolicies"},
	"services.*.restart.policy":        {"restart: {policy: on-failure}", "restart: {policy: often}", "is not a value of policy", lifecycle + "TestRestartPolicies"},
	"services.*.restart.max_restarts":  {"restart: {max_restarts: 7}", "restart: {max_restarts: 1001}", "is more than 1000", lifecycle + "TestRestartPolicies"},
	"services.*.restart.delay":         {"restart: {delay: 1s}", "restart: {delay: -1s}", "is negative", lifecycle + "TestRestartDelay"},
	"services.*.restart.max_delay":     {"restart: {max_delay: 1s}", "restart: {delay: 2s, max_delay: 1s}", "is less than the 2s of delay", lifecycle + "TestRestartDelay"},
	"services.*.stop":                  {"stop: {grace: 1s}", "stop: {after: 1s}", "is not a field", engine + "TestDrainThenSignalThenKill"},
	"services.*.stop.signal":           {"stop: {signal: SIGHUP}", "stop: {signal: STOP}", "is not a value of signal", engine + "TestDrainThenSignalThenKill"},
	"services.*.stop.grace":            {"stop: {grace: 1s}", "stop: {grace: 11m}", "is more than 10m", engine + "TestDrainThenSignalThenKill"},
	"services.*.replace_after":         {"replace_after: 3s", "replace_after: 20", "is not a duration", inCluster + "TestALostWorkerIsReplacedAfterItsTimeAndNotBefore"},
	"services.*.on_return":             {"on_return: newest", "on_return: both", "is not a value of on_return", inCluster + "TestWhoStaysOnReturn"},

	"services.*.resources.vgpus":         {"resources: {vgpus: 0.5}", "resources: {vgpus: 1.5}", "is more than one device, and not a whole number", placing + "TestDevices"},
	"services.*.resources.vtpus":         {"resources: {vtpus: 2}", "resources: {vtpus: 0}", "is less than 0.001", placing + "TestDevices"},
	"services.*.resources.bandwidth":     {"resources: {bandwidth: {in: 1Mbps}}", "resources: {bandwidth: 1Mbps}", "expected a mapping", placing + "TestBandwidthIsReserved"},
	"services.*.resources.bandwidth.in":  {"resources: {bandwidth: {in: 1Mbps}}", "resources: {bandwidth: {in: 1}}", "is not a bandwidth", placing + "TestBandwidthIsReserved"},
	"services.*.resources.bandwidth.out": {"resources: {bandwidth: {out: 1Mbps}}", "resources: {bandwidth: {out: 1kbps}}", "is less than 64kbps", placing + "TestBandwidthIsReserved"},
	"services.*.priority":                {"priority: 5", "priority: 1001", "is more than 1000", inCluster + "TestHigherPriorityDisplaces"},
	"services.*.devices":                 {"devices: [{type: camera}]", "devices: [{type: camera}, {type: camera}]", "is listed twice", placing + "TestDevices"},
	"services.*.devices[].type":          {"devices: [{type: camera}]", "devices: [{type: Camera}]", "is not a name", inCluster + "TestDevicesStandInOrders"},
	"services.*.devices[].count":         {"devices: [{type: camera, count: 2}]", "resources: {vgpus: 1}\ndevices: [{type: gpu, count: 2}]", "the number of these is in resources.vgpus", engine + "TestDevicesAreAdmitted"},
	"services.*.devices[].model":         {"resources: {vgpus: 1}\ndevices: [{type: gpu, model: [a10, T4]}]", "devices: [{type: gpu, model: a10}]", "of which the service asks for none", placing + "TestDevices"},

	"services.*.latency":            {"latency: [{to: '48,11', max: 20ms}]", "latency: {to: web, max: 20ms}", "expected a list", placing + "TestLatencyIsHardWithEveryScheduler"},
	"services.*.latency[].to":       {"latency: [{to: '48,11', max: 20ms}]", "latency: [{to: wob, max: 20ms}]", "is not a service of this application", placing + "TestLatencyIsHardWithEveryScheduler"},
	"services.*.latency[].max":      {"latency: [{to: '48,11', max: 20ms}]", "latency: [{to: '48,11', max: 0s}]", "is less than 1µs", placing + "TestLatencyIsHardWithEveryScheduler"},
	"services.*.latency[].distance": {"latency: [{to: '48,11', distance: 20km}]", "latency: [{to: '48,11'}]", "says neither max nor distance", placing + "TestDistanceToATarget"},
	"services.*.data":               {"data: [models/cats.onnx, 'https://data.example.org/cats']", "data: ['/srv/cats']", "is neither the name of an object nor a URL", atRoot + "TestPlacedWhereObjectsAre"},
	"services.*.convergence_time":   {"convergence_time: 1s", "convergence_time: soon", "is not a duration", inCluster + "TestADecisionTakesNoLongerThanItMay"},
	"services.*.rigidness":          {"rigidness: 0.5", "rigidness: 1.5", "is not between 0 and 1", "internal/policy/sla.TestRigidness"},
}

// The three kinds of checks are alike but for what they lead to.
func init() {
	for kind, effect := range map[string]string{
		"startup": engine + "TestStartupComesFirst", "readiness": engine + "TestReadinessComesAndGoes", "liveness": engine + "TestLivenessRestarts",
	} {
		in := func(field string) string { return "services.*." + kind + field }
		yaml := func(inside string) string { return kind + ": {" + inside + "}\nports: [{name: http}, {name: admin}]" }
		add := func(field, accept, reject, says, effect string) {
			proofs[in(field)] = proof{yaml(accept), yaml(reject), says, effect}
		}
		add("", "tcp: {}", "tcp: {}, http: {path: /}", "needs exactly one of http, tcp and exec", effect)
		add(".http", "http: {path: /}", "http: {}", "is missing", engine+"TestChecksOfRealProcesses")
		add(".http.path", "http: {path: /a?b=c}", "http: {path: a}", "is not a path", engine+"TestChecksOf")
		add(".http.port", "http: {path: /, port: admin}", "http: {path: /, port: metrics}", "is not a port of the service", engine+"TestChecksOf")
		add(".tcp", "tcp: {port: admin}", "tcp: {host: a}", "is not a field", engine+"TestChecksOf")
		add(".tcp.port", "tcp: {port: admin}", "tcp: {port: admn}", "is not a port of the service", engine+"TestChecksOf")
		add(".exec", "exec: {command: [x]}", "exec: x", "expected a mapping", engine+"TestChecksByCommand")
		add(".exec.command", "exec: {command: [x, '${PORT_ADMIN}']}", "exec: {command: [x, '${PORT_X}']}", "refers to a port that the service does not have", engine+"TestChecksByCommand")
		add(".interval", "tcp: {}, interval: 1s", "tcp: {}, interval: 2h", "is more than 1h", effect)
		add(".timeout", "tcp: {}, timeout: 1s", "tcp: {}, timeout: 1ms", "is less than 10ms", engine+"TestNetProber")
		add(".failures", "tcp: {}, failures: 7", "tcp: {}, failures: 0", "is less than 1", effect)
	}
}

// source is the whole descriptor of a proof.
func source(inside string) string {
	if strings.HasPrefix(inside, "application:") {
		return inside
	}
	if !strings.HasPrefix(inside, "command:") && !strings.HasPrefix(inside, "runtime: wasm") {
		inside = "command: [x]\n" + inside
	}
	return "application: x\nservices:\n  web:\n    " + strings.ReplaceAll(inside, "\n", "\n    ") + "\n"
}

// Every field has a case that is accepted, one that is rejected, and a test of
// its effect or its refusal.
func TestEveryFieldIsProven(t *testing.T) {
	left := map[string]bool{}
	for path := range proofs {
		left[path] = true
	}
	for _, v := range schema.FieldSpecs() {
		p, ok := proofs[v.Path]
		delete(left, v.Path)
		if !ok {
			t.Errorf("%s: nothing proves it: add it to proofs", v.Path)
			continue
		}
		_, _, err := Parse("f", []byte(source(p.reject)))
		if err == nil || !strings.Contains(err.Error(), p.says) {
			t.Errorf("%s: %q: %v, want %q", v.Path, p.reject, err, p.says)
		}
		app, _, err := Parse("f", []byte(source(p.accept)))
		if v.Support == schema.Refused {
			var errs Errors
			if !errors.As(err, &errs) || len(errs) != 1 || errs[0].Message != "is not enforced yet" || errs[0].Remedy != v.Instead {
				t.Errorf("%s: %q: %v, want that it is not enforced yet and nothing else", v.Path, p.accept, err)
			}
			if p.effect != "" {
				t.Errorf("%s: is refused, and has the effect %s", v.Path, p.effect)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %q: %v", v.Path, p.accept, err)
			continue
		}
		if !arrived(t, app, v.Path) {
			t.Errorf("%s: %q: the value does not arrive", v.Path, p.accept)
		}
		if !exists(t, p.effect) {
			t.Errorf("%s: there is no test %s", v.Path, p.effect)
		}
	}
	for path := range left {
		t.Errorf("%s: is no field", path)
	}
}

// arrived says whether an application has a value at a pattern.
func arrived(t *testing.T, app *api.Application, pattern string) bool {
	text, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	var at any
	if err := json.Unmarshal(text, &at); err != nil {
		t.Fatal(err)
	}
	if pattern == "services.*.replicas.min" || pattern == "services.*.replicas.max" {
		return true // written as one number
	}
	if pattern == "services.*.policy.name" {
		return true // written as the name alone
	}
	return leads(at, strings.Split(pattern, "."))
}

// leads says whether there is something at a path, at any key where it says *.
func leads(at any, path []string) bool {
	if len(path) == 0 {
		return at != nil && fmt.Sprint(at) != ""
	}
	key, list := strings.CutSuffix(path[0], "[]")
	in, ok := at.(map[string]any)
	if !ok {
		return false
	}
	for name, next := range in {
		if key != "*" && key != name {
			continue
		}
		if list {
			next = next.([]any)[0]
		}
		if leads(next, path[1:]) {
			return true
		}
	}
	return false
}

var testsIn = map[string]string{} // source of the tests in a folder

// exists says whether there is a test, named folder.TestName, in the folder or below it.
func exists(t *testing.T, name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return false
	}
	folder, name := name[:dot], name[dot+1:]
	if _, read := testsIn[folder]; !read {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			testsIn[folder] += string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Contains(testsIn[folder], "\nfunc "+name+"(t *testing.T)")
}
