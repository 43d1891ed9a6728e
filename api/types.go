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
	MaxNameLength      = 63      // a DNS label (RFC 1035)
)

// Application is a parsed descriptor: what should run and what it must achieve.
type Application struct {
	// Application is its name, a DNS label, unique at a root.
	Application string `json:"application"`
	// Services by name. At least one.
	Services map[string]*Service `json:"services"`
}

// ServiceNames returns the names of the services in alphabetical order, the
// order in which everything that iterates over them must do so.
func (a *Application) ServiceNames() []string {
	return slices.Sorted(maps.Keys(a.Services))
}

// Service is one part of an application, run as one or more instances.
type Service struct {
	// Runtime that runs an instance: "process" (default). Others are refused
	// until their driver is there.
	Runtime string `json:"runtime,omitempty"`
	// Command is the program and its leading arguments; Args follow it.
	// ${VAR} is expanded from the instance's environment, $$ is a dollar.
	Command []string          `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Resources are reserved on the worker. Zero values take the defaults
	// DefaultCPU, DefaultMemory, DefaultDisk.
	Resources Resources `json:"resources,omitzero"`
	// Limits cap use. Memory defaults to the reservation; CPU may burst unless set.
	Limits   Limits   `json:"limits,omitzero"`
	Replicas Replicas `json:"replicas,omitzero"`
	Ports    []Port   `json:"ports,omitempty"`
	// Readiness decides when an instance may receive requests. Nil: a TCP
	// connect to the first port if there is one, else ready when started.
	Readiness *Check  `json:"readiness,omitempty"`
	Restart   Restart `json:"restart,omitzero"`
	Stop      Stop    `json:"stop,omitzero"`
	// Affinity restricts where instances may be placed.
	Affinity Affinity `json:"affinity,omitzero"`
	// Spread "soft" (default) prefers workers with fewer instances of the same
	// service; "none" turns that off.
	Spread string `json:"spread,omitempty"`
	// Scheduler by which the cluster places: "rom" (default).
	Scheduler string `json:"scheduler,omitempty"`
	// Policy by which requests are routed: "round-robin" (default).
	Policy string `json:"policy,omitempty"`
	// ReplaceAfter is how long after its worker became suspect an instance is
	// replaced. Nil: 20s. Zero: at once.
	ReplaceAfter *Duration `json:"replace_after,omitempty"`
	// OnReturn decides, when a worker believed lost returns and both the
	// original and its replacement run, which one stays: "original" (default),
	// "replacement", "newest".
	OnReturn string `json:"on_return,omitempty"`
	// SLO is the latency objective of a request. Refused until there is a scaler.
	SLO *Duration `json:"slo,omitempty"`
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
)

// Resources is what one instance reserves.
type Resources struct {
	CPU    CPU   `json:"cpu,omitempty"`
	Memory Bytes `json:"memory,omitempty"`
	Disk   Bytes `json:"disk,omitempty"`
}

// Limits is what one instance may use at most; zero is "see Service.Limits".
type Limits struct {
	CPU    CPU   `json:"cpu,omitempty"`
	Memory Bytes `json:"memory,omitempty"`
}

// Replicas is written as a number, or as {min, max}. Max > Min is refused until
// there is a scaler.
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
	// Protocol: "tcp" (default) or "http" (default where there is an ingress or
	// the name is "http").
	Protocol string   `json:"protocol,omitempty"`
	Ingress  *Ingress `json:"ingress,omitempty"`
}

// Ingress publishes a port on every gateway.
type Ingress struct {
	// Host name of the requests that belong here; unique at a root.
	Host string `json:"host"`
}

// Check is a probe. Exactly one of HTTP and TCP is set.
type Check struct {
	HTTP *HTTPCheck `json:"http,omitempty"`
	TCP  *TCPCheck  `json:"tcp,omitempty"`
	// Interval between probes once ready (default 2s); before that Verge probes
	// more often. Timeout of one probe: default 1s.
	Interval Duration `json:"interval,omitempty"`
	Timeout  Duration `json:"timeout,omitempty"`
	// Failures in a row that make a ready instance unready (default 3).
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

// Restart says what happens when an instance exits.
type Restart struct {
	// Policy: "always" (default), "on-failure", "never".
	Policy string `json:"policy,omitempty"`
	// MaxRestarts in place, in a row without 60 s of calm, before the instance is
	// rescheduled elsewhere. Nil: 5.
	MaxRestarts *int `json:"max_restarts,omitempty"`
}

// Stop says how an instance is ended: Signal, then after Grace SIGKILL.
type Stop struct {
	Signal string   `json:"signal,omitempty"` // default "TERM"
	Grace  Duration `json:"grace,omitempty"`  // default 10s
}

// Affinity lists where a service may run; empty lists do not restrict.
type Affinity struct {
	Cluster []string `json:"cluster,omitempty"`
	Area    []string `json:"area,omitempty"`
}
