package api

//go:generate go test -run TestReferencePage -update .

import (
	"slices"
	"strings"
	"sync"
)

// Ruling says what becomes of a field or of a value.
type Ruling string

// The rulings. Nothing is silently ignored.
const (
	Enforced Ruling = "enforced"
	Refused  Ruling = "not enforced yet" // an error that says what to write instead
	Warned   Ruling = "no effect yet"    // accepted, and said in a Warning
)

// Verdict is what there is to know about one field of the descriptor. The table
// of them is the only list: the parser refuses by it, the schema and the
// reference page are made from it.
type Verdict struct {
	// Path of the field: "services.*.ports[].name", where * is any key.
	Path    string
	Verdict Ruling
	// Type says what to write: "text", "duration", "list of texts", …
	Type string
	// Default in words or as it would be written; "" if there is none.
	Default string
	// Note says what the field does.
	Note     string
	Required bool
	// Values are all there are; nil if the field takes any. A refused one is known
	// and comes later.
	Values []Value
	// Min and Max bound the field in its own unit (thousandths of a core, bytes,
	// nanoseconds, count), inclusive; both zero: not bounded.
	Min, Max int64
	// Pattern is the regular expression of a text, Keys that of the keys of a
	// mapping, both in the syntax that Go and JSON Schema share; "" if any.
	Pattern, Keys string
	// Instead says what to write in place of a refused field.
	Instead string

	// normal brings what people write into the one form; nil: nothing to do.
	normal func(string) string
}

// Value is one of the values of a field with a closed set.
type Value struct {
	Value   string
	Verdict Ruling
	// Instead says what to write in place of a refused one.
	Instead string
}

// Verdicts returns the verdict on every field, in the order of the reference
// page.
func Verdicts() []Verdict { return slices.Clone(verdictList()) }

// verdict returns the row of a field by its pattern; the zero Verdict for what
// is not a field of its own (an element of a list or of env).
func verdict(pattern string) Verdict { return verdictIndex()[pattern] }

var verdictIndex = sync.OnceValue(func() map[string]Verdict {
	index := map[string]Verdict{}
	for _, v := range verdictList() {
		index[v.Path] = v
	}
	return index
})

var verdictList = sync.OnceValue(func() []Verdict {
	rows := slices.Concat(applicationRows(), placementRows(), networkRows(), lifeRows())
	types := map[string]string{}
	for _, f := range fields() {
		types[f.pattern] = typeName(f.typ)
	}
	for i := range rows {
		if rows[i].Verdict == "" {
			rows[i].Verdict = Enforced
		}
		rows[i].Type = types[rows[i].Path]
	}
	return rows
})

// Patterns of texts and keys.
const (
	labelPattern = `^[a-z]([-a-z0-9]*[a-z0-9])?$`              // a name (RFC 1035)
	sitePattern  = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`           // a cluster or an area (RFC 1123)
	envPattern   = `^[A-Za-z_][A-Za-z0-9_]*$`                  // a variable
	hostPattern  = `^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$` // roughly; validHost is exact
	pathPattern  = "^/[^\\x00-\\x20\\x7f]*$"
)

// values makes a closed set: those that work, and those that come later.
func values(now string, later, instead string) []Value {
	var list []Value
	for _, v := range strings.Fields(now) {
		list = append(list, Value{Value: v, Verdict: Enforced})
	}
	for _, v := range strings.Fields(later) {
		list = append(list, Value{Value: v, Verdict: Refused, Instead: instead})
	}
	return list
}

func applicationRows() []Verdict {
	return []Verdict{
		{Path: "application", Required: true, Pattern: labelPattern,
			Note: "Name of the application, unique at a root: small letters, digits and -, beginning with a letter, at most 63."},
		{Path: "services", Required: true, Min: 1, Max: MaxServices, Keys: labelPattern,
			Note: "The services by name. A name is written as that of the application."},
		{Path: "services.*.runtime", Default: "process", Values: values("process", "container wasm vm", "write process, or leave runtime out"),
			Note: "What runs an instance. A process is a program of the worker's machine."},
		{Path: "services.*.command", Required: true, Min: 1,
			Note: "The program and its leading arguments. ${VAR} is replaced by the variable, $$ by a dollar."},
		{Path: "services.*.args",
			Note: "Arguments after those of command, with the same replacements."},
		{Path: "services.*.env", Keys: envPattern,
			Note: "Environment of the instance. Numbers and truth values are taken as they are written. ${VAR} is replaced by a variable of Verge, not by another one of env."},
	}
}

func placementRows() []Verdict {
	return []Verdict{
		{Path: "services.*.resources", Note: "What one instance reserves on its worker. The sum of the reservations never exceeds the worker's capacity."},
		{Path: "services.*.resources.cpu", Default: DefaultCPU.String(), Min: 1, Max: int64(MaxCPU),
			Note: "Cores (2, 0.5) or thousandths of one (500m). Where the worker has control groups, busy instances share the processor in this proportion."},
		{Path: "services.*.resources.memory", Default: DefaultMemory.String(), Min: 1 << 20, Max: int64(MaxBytes),
			Note: "128Mi, 1Gi (powers of 1024), 200M (powers of 1000)."},
		{Path: "services.*.resources.disk", Default: DefaultDisk.String(), Min: 1 << 20, Max: int64(MaxBytes),
			Note: "Reserved on the worker when an instance is placed. What an instance writes is not limited by a quota."},
		{Path: "services.*.limits", Note: "What one instance may use at most. Enforced where the worker has control groups; it says when it has none."},
		{Path: "services.*.limits.cpu", Default: "none: an instance may use what is idle", Min: 1, Max: int64(MaxCPU),
			Note: "Not less than resources.cpu."},
		{Path: "services.*.limits.memory", Default: "resources.memory", Min: 1 << 20, Max: int64(MaxBytes),
			Note: "Not less than resources.memory. An instance that exceeds it is killed and restarted."},
		{Path: "services.*.replicas", Default: "1", Max: MaxReplicas,
			Note: "How many instances run: a whole number, or {min, max}, which must be equal until there is a scaler."},
		{Path: "services.*.replicas.min", Required: true, Max: MaxReplicas, Note: "Instances that always run."},
		{Path: "services.*.replicas.max", Default: "min", Max: MaxReplicas,
			Note: "Must equal min: more is refused until there is a scaler."},
		{Path: "services.*.affinity", Note: "Where instances may be placed. Lists that are left out or empty do not restrict."},
		{Path: "services.*.affinity.cluster", Pattern: sitePattern, Note: "Names of clusters, one of which must be it."},
		{Path: "services.*.affinity.area", Pattern: sitePattern, Note: "Names of areas, one of which the cluster must have."},
		{Path: "services.*.spread", Default: "soft", Values: values("soft none", "", ""),
			Note: "soft prefers workers with fewer instances of the same service; none does not."},
		{Path: "services.*.scheduler", Default: "rom",
			Values: values("rom", "ldp spread throughput drf nearest-demand plugin", "write rom, or leave scheduler out"),
			Note:   "How a cluster picks the worker: rom takes the one that fits best on the scarcest resource."},
	}
}

func networkRows() []Verdict {
	return []Verdict{
		{Path: "services.*.ports", Max: maxPorts, Note: "Ports on which an instance listens. It finds the numbers in `PORT` (first port) and `PORT_<NAME>`."},
		{Path: "services.*.ports[].name", Default: "of the first port: its protocol", Pattern: labelPattern,
			Note: "Unique in the service. Only the first port may leave it out."},
		{Path: "services.*.ports[].protocol", Default: "http with an ingress or the name http, else tcp", Values: values("tcp http", "", ""),
			Note: "What is spoken on the port."},
		{Path: "services.*.ports[].ingress", Note: "Publishes the port, which must be http, on every gateway."},
		{Path: "services.*.ports[].ingress.host", Required: true, Pattern: hostPattern, normal: strings.ToLower,
			Note: "Host name of the requests that belong to the port, unique at a root."},
		{Path: "services.*.policy", Default: "round-robin",
			Values: values("round-robin", "random weighted billiard least-connections p2c closest local proximity least-response fastest", "write round-robin, or leave policy out"),
			Note:   "How requests are distributed over the ready instances."},
		{Path: "services.*.slo", Verdict: Refused, Instead: "leave it out until there is a scaler",
			Note: "Latency objective of a request."},
		{Path: "services.*.readiness", Default: "tcp to the first port; without ports an instance is ready when it has started",
			Note: "When an instance may receive requests. Exactly one of http and tcp."},
		{Path: "services.*.readiness.http", Note: "Ready while a GET is answered with a status of 200 to 399."},
		{Path: "services.*.readiness.http.path", Required: true, Pattern: pathPattern, Note: "Path of the request, beginning with /."},
		{Path: "services.*.readiness.http.port", Default: "the first port", Note: "Name of a port of the service."},
		{Path: "services.*.readiness.tcp", Note: "Ready while connections are accepted. {} checks the first port."},
		{Path: "services.*.readiness.tcp.port", Default: "the first port", Note: "Name of a port of the service."},
		{Path: "services.*.readiness.interval", Default: DefaultInterval.String(), Min: 100e6, Max: 3600e9,
			Note: "Time between probes of a ready instance. One that is not ready yet is probed more often."},
		{Path: "services.*.readiness.timeout", Default: DefaultTimeout.String(), Min: 10e6, Max: 300e9,
			Note: "After which a probe has failed."},
		{Path: "services.*.readiness.failures", Default: "3", Min: 1, Max: 100,
			Note: "Failed probes in a row that make a ready instance unready."},
	}
}

func lifeRows() []Verdict {
	return []Verdict{
		{Path: "services.*.restart", Note: "What happens when an instance exits."},
		{Path: "services.*.restart.policy", Default: "always", Values: values("always on-failure never", "", ""),
			Note: "on-failure restarts after an exit code other than 0."},
		{Path: "services.*.restart.max_restarts", Default: "5", Max: 1000,
			Note: "Restarts in a row on one worker, without 60s of calm, before the instance is placed elsewhere."},
		{Path: "services.*.stop", Note: "How an instance is ended."},
		{Path: "services.*.stop.signal", Default: "TERM", Values: values("TERM INT QUIT HUP USR1 USR2 WINCH KILL", "", ""), normal: signalName,
			Note: "With or without SIG."},
		{Path: "services.*.stop.grace", Default: DefaultGrace.String(), Min: 1e6, Max: 600e9,
			Note: "Time from the signal to SIGKILL. For an end without delay write signal: KILL."},
		{Path: "services.*.replace_after", Default: DefaultReplaceAfter.String(), Max: int64(MaxDuration),
			Note: "How long after its worker became suspect (silent or cut off) an instance is replaced; 0 is at once."},
		{Path: "services.*.on_return", Default: "original", Values: values("original replacement newest", "best", "write original, replacement or newest"),
			Note: "Which instance stays when a worker that was believed lost comes back."},
	}
}

// signalName turns "SIGTERM" and "term" into "TERM".
func signalName(s string) string {
	return strings.TrimPrefix(strings.ToUpper(s), "SIG")
}
