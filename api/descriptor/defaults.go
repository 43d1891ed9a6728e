package descriptor

import (
	"cmp"

	"github.com/verge-edge/verge/api"
)

// defaultRuntime is the runtime of a service that names none: whatever runs what it
// brings.
func defaultRuntime(s *api.Service) string {
	switch {
	case s.Image != "":
		return api.Container
	case s.Module != "":
		return api.Wasm
	default:
		return "process"
	}
}

// fillDefaults sets whatever the file is silent about, so that nobody after the
// parser guesses. A field whose zero value means something (replicas,
// max_restarts, replace_after) is told from silence by given or by a pointer.
func fillDefaults(s *api.Service, given func(field string) bool) {
	s.Runtime = cmp.Or(s.Runtime, defaultRuntime(s))
	if s.Runtime == api.Container {
		s.Pull = cmp.Or(s.Pull, "missing")
		s.Security.Root = cmp.Or(s.Security.Root, api.RootReadOnly)
		s.Security.Seccomp = cmp.Or(s.Security.Seccomp, api.SeccompDefault)
	}
	s.Resources.CPU = cmp.Or(s.Resources.CPU, api.DefaultCPU)
	s.Resources.Memory = cmp.Or(s.Resources.Memory, api.DefaultMemory)
	s.Resources.Disk = cmp.Or(s.Resources.Disk, api.DefaultDisk)
	for i := range s.Devices {
		if d := &s.Devices[i]; !d.Counted() {
			d.Count = cmp.Or(d.Count, 1)
		}
	}
	s.Limits.Memory = cmp.Or(s.Limits.Memory, s.Resources.Memory)
	if !given("replicas") {
		s.Replicas = api.Replicas{Min: 1, Max: 1}
	}
	fillCron(s)
	fillJob(s, given)
	if s.Runtime == api.Wasm && len(s.Ports) == 0 {
		s.Ports = []api.Port{{Protocol: "http"}}
	}
	if s.Idle == nil && s.Replicas.ToZero() {
		s.Idle = new(api.Duration)
		*s.Idle = api.DefaultIdle
	}
	for i := range s.Ports {
		if i == 0 && s.Runtime == api.Wasm {
			s.Ports[i].Protocol = cmp.Or(s.Ports[i].Protocol, "http")
		}
		fillPort(&s.Ports[i], i == 0)
	}
	// A function answers from its start on.
	if s.Readiness == nil && api.FirstTCP(s.Ports) != "" && s.Runtime != api.Wasm {
		s.Readiness = &api.Check{TCP: &api.TCPCheck{}}
	}
	fillCheck(s.Startup, s.Ports, api.DefaultInterval, api.DefaultStartupFailures)
	fillCheck(s.Readiness, s.Ports, api.DefaultInterval, api.DefaultFailures)
	fillCheck(s.Liveness, s.Ports, api.DefaultLivenessInterval, api.DefaultFailures)
	for name, f := range s.Files {
		f.Mode = cmp.Or(f.Mode, api.DefaultFileMode)
		s.Files[name] = f
	}
	// The ring of a GeoJSON polygon ends with its first point.
	if p := s.Affinity.Polygon; len(p) > 3 && p[0] == p[len(p)-1] {
		s.Affinity.Polygon = p[:len(p)-1]
	}
	s.Restart.Delay = cmp.Or(s.Restart.Delay, api.DefaultDelay)
	s.Restart.MaxDelay = cmp.Or(s.Restart.MaxDelay, max(api.DefaultMaxDelay, s.Restart.Delay))
	s.Restart.Policy = cmp.Or(s.Restart.Policy, "always")
	if s.Restart.MaxRestarts == nil {
		s.Restart.MaxRestarts = new(int)
		*s.Restart.MaxRestarts = api.DefaultMaxRestarts
	}
	s.Stop.Signal = cmp.Or(s.Stop.Signal, "TERM")
	s.Stop.Grace = cmp.Or(s.Stop.Grace, api.DefaultGrace)
	s.Spread = cmp.Or(s.Spread, "soft")
	if s.Policy.Name == api.PolicyProximity && !given("policy.alpha") {
		s.Policy.Alpha = api.DefaultAlpha
	}
	// Silence is kept where ports are for requests: what it means differs by port (see
	// wire.RequestRules), and orchestrators of before take it for round robin.
	if !s.Policy.IsZero() || !s.ForRequests() {
		s.Policy = s.Policy.Filled()
	}
	if s.ReplaceAfter == nil {
		s.ReplaceAfter = new(api.Duration)
		*s.ReplaceAfter = api.DefaultReplaceAfter
	}
	s.OnReturn = cmp.Or(s.OnReturn, "original")
}

func fillPort(p *api.Port, first bool) {
	if p.Protocol == "" {
		requests := p.ForRequests()
		if p.Protocol = "tcp"; requests {
			p.Protocol = "http"
		}
	}
	if first {
		p.Name = cmp.Or(p.Name, p.Protocol)
	}
	if i := p.Ingress; i != nil && i.RateLimit != nil {
		i.RateLimit.Burst = cmp.Or(i.RateLimit.Burst, i.RateLimit.Requests)
	}
}

func fillCheck(c *api.Check, ports []api.Port, interval api.Duration, failures int) {
	if c == nil {
		return
	}
	c.Interval = cmp.Or(c.Interval, interval)
	c.Timeout = cmp.Or(c.Timeout, api.DefaultTimeout)
	c.Failures = cmp.Or(c.Failures, failures)
	if len(ports) == 0 {
		return
	}
	first := cmp.Or(api.FirstTCP(ports), ports[0].Name)
	if c.HTTP != nil {
		c.HTTP.Port = cmp.Or(c.HTTP.Port, first)
	}
	if c.TCP != nil {
		c.TCP.Port = cmp.Or(c.TCP.Port, first)
	}
}
