package api

import (
	"maps"
	"slices"
)

// Limits of a descriptor. They bound what a hostile or mistaken file can cost.
const (
	MaxDescriptorBytes = 1 << 20 // 1 MiB, checked before parsing
	MaxServices        = 1000    // services of one application
	MaxReplicas        = 10000   // replicas of one service
	MaxConcurrency     = 100000  // requests of one instance at a time
	MaxQueue           = 100000  // requests that wait in front of one
	MaxNameLength      = 63      // a DNS label (RFC 1035)
	MaxDevices         = 64      // devices of one worker, and of one type that an instance uses
	MaxDeviceTypes     = 16      // types of devices that an instance uses
	MaxDeviceModels    = 32      // models of one type that will do
	MaxPriority        = 1000    // the highest priority of a service
)

// Application is a parsed descriptor: what should run and what it must achieve.
type Application struct {
	// Application is its name, a DNS label, unique at a root.
	Application string `json:"application"`
	// Namespace that owns the application, a DNS label: "default" where the file is
	// silent, "" only in records that are older than namespaces.
	Namespace string `json:"namespace,omitempty"`
	// Services by name. At least one.
	Services map[string]*Service `json:"services"`
}

// ServiceNames returns the names of the services in alphabetical order, the
// order in which everything that iterates over them must do so.
func (a *Application) ServiceNames() []string {
	return slices.Sorted(maps.Keys(a.Services))
}

// Service is one part of an application, run as one or more instances.
//
// It has a field for each key of the descriptor, in the order in which they are printed. Embedded
// parts would keep that, but neither literals nor error messages could name a field without the
// part that it is in, and a plugin or an importer that fills a Service would have to know a
// structure which the descriptor does not have.
type Service struct {
	// Runtime that runs an instance: "process", "container" or "wasm". Left out, it
	// follows from what the service brings: an image, a module, or neither.
	Runtime string `json:"runtime,omitempty"`
	// Image that a container is made of: a reference, or the name under which an
	// archive was imported. Pull says when it is fetched: "missing" (default where
	// there is an image), "always" or "never".
	Image string `json:"image,omitempty"`
	Pull  string `json:"pull,omitempty"`
	// User that an instance runs as. Of a container "" is that of the image; of a process
	// it is a user of the worker's machine, and "" is one of its own that nobody else has.
	User string `json:"user,omitempty"`
	// PullSecret is the secret with the credentials for the registry of Image.
	PullSecret string `json:"pull_secret,omitempty"`
	// Security is what a container may do.
	Security Security `json:"security,omitzero"`
	// Module that a function (runtime wasm) is made of: the name of an object, or the
	// absolute path of a file of the worker.
	Module string `json:"module,omitempty"`
	// Command is the program and its leading arguments; Args follow it. Of a
	// container Command takes the place of the image's entry point and arguments, and
	// Args without Command that of its arguments alone.
	// ${VAR} is expanded from the instance's environment, $$ is a dollar.
	Command []string          `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// EnvSecrets are variables whose values are secrets of the namespace, by name of
	// the variable. None is in Env too, and no ${VAR} refers to one.
	EnvSecrets map[string]string `json:"env_secrets,omitempty"`
	// Files that an instance finds when it starts, by their path below its working
	// directory: relative, clean, without "..".
	Files   map[string]File `json:"files,omitempty"`
	Volumes []Volume        `json:"volumes,omitempty"`
	// Resources are reserved on the worker. Zero values take the defaults
	// DefaultCPU, DefaultMemory, DefaultDisk.
	Resources Resources `json:"resources,omitzero"`
	// Devices of the worker that an instance uses besides, and which models will do.
	Devices []DeviceNeed `json:"devices,omitempty"`
	// Limits cap use. Memory defaults to the reservation; CPU may burst unless set.
	Limits Limits `json:"limits,omitzero"`
	// Bandwidth bounds what an instance receives and sends; zero: not bounded.
	Bandwidth Bandwidth `json:"bandwidth,omitzero"`
	Replicas  Replicas  `json:"replicas,omitzero"`
	Ports     []Port    `json:"ports,omitempty"`
	// Startup, where there is one, must pass before an instance is Running and
	// before the other checks begin. Nil: it is Running when it has started.
	Startup *Check `json:"startup,omitempty"`
	// Readiness decides when an instance may receive requests. Nil: a TCP
	// connect to the first port that is not udp if there is one, else ready when
	// started.
	Readiness *Check `json:"readiness,omitempty"`
	// Liveness, where there is one, ends an instance that fails it; the restart
	// rule then decides as after any other exit.
	Liveness *Check  `json:"liveness,omitempty"`
	Restart  Restart `json:"restart,omitzero"`
	Stop     Stop    `json:"stop,omitzero"`
	// Job, where there is one, says that the service runs to completion.
	Job *Job `json:"job,omitempty"`
	// Cron, where there is one, says when the job runs.
	Cron *Cron `json:"cron,omitempty"`
	// Architecture lists those that the program is made for, in the names of Go
	// (amd64, arm64); empty: any.
	Architecture []string `json:"architecture,omitempty"`
	// Location restricts instances to workers within a distance of a point.
	Location *Location `json:"location,omitempty"`
	// Affinity restricts where instances may be placed, AntiAffinity excludes.
	Affinity     Affinity     `json:"affinity,omitzero"`
	AntiAffinity AntiAffinity `json:"anti_affinity,omitzero"`
	// Spread "soft" (default) prefers workers with fewer instances of the same
	// service; "none" turns that off.
	Spread string `json:"spread,omitempty"`
	// Priority over others: where there is no room for an instance, those of services with
	// a lower one make room for it. 0 to MaxPriority.
	Priority int `json:"priority,omitempty"`
	// Scheduler by which the cluster places; "" is that of the cluster.
	Scheduler string `json:"scheduler,omitempty"`
	// Plugin that ranks the workers where Scheduler is "plugin": a name that the
	// operator of a cluster has given it.
	Plugin string `json:"plugin,omitempty"`
	// Policy by which requests and connections are routed. The zero value is silence:
	// PolicyFastest for the requests of ports for http and grpc, round robin for
	// connections to all others.
	Policy Policy `json:"policy,omitzero"`
	// Concurrency is how many requests an instance works on at a time (nil: 10, 0: as
	// many as come), QueueMax how many more may wait in front of it (nil: 100), and
	// Timeout the time until an answer begins (nil: none). A service that says any of
	// them is routed by request.
	Concurrency *int      `json:"concurrency,omitempty"`
	QueueMax    *int      `json:"queue_max,omitempty"`
	Timeout     *Duration `json:"timeout,omitempty"`
	// Export lets instances of other applications reach the service.
	Export bool `json:"export,omitempty"`
	// ServiceIP is the IPv4 address of the service on every worker, for its default
	// policy; "" leaves the choice to each worker.
	ServiceIP string `json:"service_ip,omitempty"`
	// ReplaceAfter is how long after its worker became suspect an instance is
	// replaced. Nil: 20s. Zero: at once.
	ReplaceAfter *Duration `json:"replace_after,omitempty"`
	// OnReturn decides, when a worker believed lost returns and both the
	// original and its replacement run, which one stays: "original" (default),
	// "replacement", "newest".
	OnReturn string `json:"on_return,omitempty"`
	// SLO is the objective for the time of a request; nil is none.
	SLO *Duration `json:"slo,omitempty"`
	// Idle is how long after its last request an instance of a service that may have
	// none running goes on. Nil where all its instances always run; else 60s.
	Idle *Duration `json:"idle,omitempty"`
	// Rollout says how instances are brought to another program.
	Rollout Rollout `json:"rollout,omitzero"`
	// Latency thresholds to services, places and addresses.
	Latency []Latency `json:"latency,omitempty"`
	// Data names what an instance reads and is placed near: objects of the namespace
	// (DataObjects), and hosts by URL (DataHosts).
	Data []string `json:"data,omitempty"`
	// ConvergenceTime is the most that a decision where to place may take.
	ConvergenceTime *Duration `json:"convergence_time,omitempty"`
	// Rigidness is 1 where the first violation of the agreement moves an instance,
	// 0 where none does.
	Rigidness *float64 `json:"rigidness,omitempty"`
}

// Defaults of a service where the descriptor is silent (spec: decisions).
const (
	DefaultCPU          CPU      = 100
	DefaultMemory       Bytes    = 64 << 20
	DefaultDisk         Bytes    = 100 << 20
	DefaultReplaceAfter Duration = 20e9
	DefaultGrace        Duration = 10e9
	DefaultMaxRestarts           = 5
	DefaultInterval     Duration = 2e9
	DefaultTimeout      Duration = 1e9
	DefaultFailures              = 3
	DefaultNamespace             = "default"
	// DefaultStartupFailures times DefaultInterval is the minute that an instance
	// has to start; DefaultLivenessInterval is longer than that of readiness,
	// because it restarts what fails.
	DefaultStartupFailures           = 30
	DefaultLivenessInterval Duration = 10e9
	DefaultDelay            Duration = 100e6
	DefaultMaxDelay         Duration = 300e9
	DefaultFileMode         FileMode = 0o600
	DefaultIdle             Duration = 60e9
)

// Runtimes of services that are no programs of the worker's machine: Container has an
// image, Wasm a module.
const (
	Container = "container"
	Wasm      = "wasm"
)

// Resources is what one instance reserves.
type Resources struct {
	CPU    CPU   `json:"cpu,omitempty"`
	Memory Bytes `json:"memory,omitempty"`
	Disk   Bytes `json:"disk,omitempty"`
	// VGPUs and VTPUs are accelerators: whole ones, or a share of a single one.
	VGPUs Units `json:"vgpus,omitempty"`
	VTPUs Units `json:"vtpus,omitempty"`
	// Bandwidth of the worker's connection; what an instance really sends is bounded by
	// Service.Bandwidth alone.
	Bandwidth Bandwidth `json:"bandwidth,omitzero"`
}

// DeviceNeed is what a service asks of the devices of a worker.
type DeviceNeed struct {
	// Type of the device: DeviceGPU and DeviceTPU, whose number is in Resources, or any
	// other that workers have, such as "camera".
	Type string `json:"type"`
	// Count of whole devices, which nobody else uses at the same time. Zero for GPUs
	// and TPUs.
	Count int `json:"count,omitempty"`
	// Model lists those that will do; empty: any.
	Model []string `json:"model,omitempty"`
}

// Types of devices whose number is a resource.
const (
	DeviceGPU = "gpu"
	DeviceTPU = "tpu"
)

// Limits is what one instance may use at most; zero is "see Service.Limits".
type Limits struct {
	CPU    CPU   `json:"cpu,omitempty"`
	Memory Bytes `json:"memory,omitempty"`
}

// Replicas is written as a number, or as {min, max}: then its clusters decide, by its
// requests, how many run.
type Replicas struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Port is a named port of a service. A process instance finds the number that
// was given to it in $PORT (first port) and $PORT_<NAME>.
type Port struct {
	// Name, a DNS label; the first port may leave it out and is then "http" or
	// "tcp", as its protocol.
	Name string `json:"name,omitempty"`
	// Protocol: "tcp" (default), "http" (default where there is an ingress or
	// the name is "http"), "grpc" (HTTP/2 without TLS) or "udp".
	Protocol string `json:"protocol,omitempty"`
	// Number that the program listens on whatever PORT says; 0: Verge chooses one.
	Number  int      `json:"number,omitempty"`
	Ingress *Ingress `json:"ingress,omitempty"`
}

// PortNumber is the number of a service's port, by its index in the descriptor, where
// an instance has all ports for itself: that which the descriptor names, else 80 for
// the first if it is for HTTP, else 8000 and its index. It is the same on every worker.
func PortNumber(ports []Port, i int) int {
	switch p := &ports[i]; {
	case p.Number != 0:
		return p.Number
	case i == 0 && (p.ForRequests() || p.Name == "http"):
		return 80
	}
	return 8000 + i
}

// Check is a probe. Exactly one of HTTP, TCP and Exec is set.
type Check struct {
	HTTP *HTTPCheck `json:"http,omitempty"`
	TCP  *TCPCheck  `json:"tcp,omitempty"`
	Exec *ExecCheck `json:"exec,omitempty"`
	// Interval between probes once ready (default 2s, of liveness 10s); before that
	// Verge probes more often. Timeout of one probe: default 1s.
	Interval Duration `json:"interval,omitempty"`
	Timeout  Duration `json:"timeout,omitempty"`
	// Failures in a row that make a ready instance unready, a living one dead
	// (default 3), or a starting one fail (default 30).
	Failures int `json:"failures,omitempty"`
}

// HTTPCheck passes on a status of 200–399.
type HTTPCheck struct {
	Path string `json:"path"`
	Port string `json:"port,omitempty"` // name; empty: the first port
}

// TCPCheck passes when a connection is accepted.
type TCPCheck struct {
	Port string `json:"port,omitempty"`
}

// ExecCheck passes when a program that is run beside the instance, as the same
// user, in its directory and with its environment, exits with 0 in time. ${VAR}
// is expanded as in Service.Args.
type ExecCheck struct {
	Command []string `json:"command"`
}

// Restart says what happens when an instance exits.
type Restart struct {
	// Policy: "always" (default), "on-failure", "never".
	Policy string `json:"policy,omitempty"`
	// MaxRestarts in place, in a row without 60 s of calm, before the instance is
	// rescheduled elsewhere. Nil: 5.
	MaxRestarts *int `json:"max_restarts,omitempty"`
	// Delay before the first restart in a row (0: 100ms); each further one waits
	// twice as long, MaxDelay (0: 5m) at most.
	Delay    Duration `json:"delay,omitempty"`
	MaxDelay Duration `json:"max_delay,omitempty"`
}

// Stop says how an instance is ended: Signal, then after Grace SIGKILL.
type Stop struct {
	Signal string   `json:"signal,omitempty"` // default "TERM"
	Grace  Duration `json:"grace,omitempty"`  // default 10s
}

// File is what stands in a file of an instance: Content, in which ${VAR} is
// expanded as in Service.Args, or the value of the Secret of that name.
type File struct {
	Content string   `json:"content"`
	Secret  string   `json:"secret"`
	Mode    FileMode `json:"mode"` // default 0600
}

// Volume is a directory of an instance that is not lost with it (Host, Name), or
// that is in memory (Tmpfs). Exactly one of the three is set.
type Volume struct {
	// Path below the working directory of the instance, as those of Files.
	Path string `json:"path"`
	// Name of a directory that the worker makes for the instance and keeps when it
	// ends. It pins the instance to its worker.
	Name string `json:"name,omitempty"`
	// Host is an absolute path of the worker, as far as its operator allows it.
	Host string `json:"host,omitempty"`
	// Tmpfs is the size of a directory in memory.
	Tmpfs    Bytes `json:"tmpfs,omitempty"`
	ReadOnly bool  `json:"read_only,omitempty"`
}

// Pins says whether an instance of s cannot be placed on another worker, because
// what it has stored would stay behind.
func (s *Service) Pins() bool {
	return slices.ContainsFunc(s.Volumes, func(v Volume) bool { return v.Name != "" })
}

// Point on the surface of the Earth: latitude and longitude in degrees.
type Point [2]float64

// Location is a disc: nothing further than Radius from the point is in it.
type Location struct {
	Latitude  float64  `json:"latitude"`  // −90 to 90
	Longitude float64  `json:"longitude"` // −180 to 180
	Radius    Distance `json:"radius"`
}

// Affinity lists where a service may run; what is empty does not restrict.
type Affinity struct {
	Cluster []string `json:"cluster,omitempty"`
	Area    []string `json:"area,omitempty"`
	// Polygon has the corners of an area in which the worker must be, in order,
	// without the first one again at the end; at least three.
	Polygon []Point `json:"polygon,omitempty"`
	// Labels that the worker must have, all of them.
	Labels map[string]string `json:"labels,omitempty"`
}

// AntiAffinity lists where a service may not run.
type AntiAffinity struct {
	Cluster []string `json:"cluster,omitempty"`
	Area    []string `json:"area,omitempty"`
	// Labels none of which the worker may have.
	Labels map[string]string `json:"labels,omitempty"`
	// Service lists services of the application of which the worker may run no
	// instance. Itself: at most one instance on a worker.
	Service []string `json:"service,omitempty"`
}

// NeedsNetwork names what of a service only workers of the service network have, ""
// where that is nothing.
func (s *Service) NeedsNetwork() string {
	if s.Bandwidth != (Bandwidth{}) {
		return "bandwidth"
	}
	for i := range s.Ports {
		if s.Ports[i].Protocol == UDP {
			return "a udp port"
		}
	}
	return ""
}

// TakesRequests says whether one of the ports is for requests, which can be counted
// and queued, and not just for connections.
func TakesRequests(ports []Port) bool {
	for i := range ports {
		if ports[i].ForRequests() {
			return true
		}
	}
	return false
}

// UDP is the protocol of a port that gets datagrams.
const UDP = "udp"

// FirstTCP is the name of the first port that takes connections, "" if none does.
func FirstTCP(ports []Port) string {
	for i := range ports {
		if ports[i].Protocol != UDP {
			return ports[i].Name
		}
	}
	return ""
}

// Bandwidth bounds an instance, in bits per second; 0: not at all.
type Bandwidth struct {
	In  Bitrate `json:"in,omitempty"`
	Out Bitrate `json:"out,omitempty"`
}

// Latency is the most that something may be away from an instance.
type Latency struct {
	// To is a service of the application, a place ("latitude,longitude") or an address
	// of users: an IP address or a name, with ":port" or without.
	To string `json:"to"`
	// Max is the longest round trip, Distance the longest great circle; 0: any. One of
	// the two is set.
	Max      Duration `json:"max,omitempty"`
	Distance Distance `json:"distance,omitempty"`
}
