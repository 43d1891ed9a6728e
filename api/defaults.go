package api

import "cmp"

// defaultRuntime is the runtime of a service that names none: whatever runs what it
// brings.
func defaultRuntime(s *Service) string {
	switch {
	case s.Image != "":
		return Container
	case s.Module != "":
		return Wasm
	default:
		return "process"
	}
}

// fillDefaults sets whatever the file is silent about, so that nobody after the
// parser guesses. A field whose zero value means something (replicas,
// max_restarts, replace_after) is told from silence by given or by a pointer.
func fillDefaults(s *Service, given func(field string) bool) {
	s.Runtime = cmp.Or(s.Runtime, defaultRuntime(s))
	if s.Runtime == Container {
		s.Pull = cmp.Or(s.Pull, "missing")
		s.Security.Root = cmp.Or(s.Security.Root, RootReadOnly)
		s.Security.Seccomp = cmp.Or(s.Security.Seccomp, SeccompDefault)
	}
	s.Resources.CPU = cmp.Or(s.Resources.CPU, DefaultCPU)
	s.Resources.Memory = cmp.Or(s.Resources.Memory, DefaultMemory)
	s.Resources.Disk = cmp.Or(s.Resources.Disk, DefaultDisk)
	for i := range s.Devices {
		if d := &s.Devices[i]; !d.counted() {
			d.Count = cmp.Or(d.Count, 1)
		}
	}
	s.Limits.Memory = cmp.Or(s.Limits.Memory, s.Resources.Memory)
	if !given("replicas") {
		s.Replicas = Replicas{1, 1}
	}
	fillCron(s)
	fillJob(s, given)
	if s.Runtime == Wasm && len(s.Ports) == 0 {
		s.Ports = []Port{{Protocol: "http"}}
	}
	if s.Idle == nil && s.Replicas.ToZero() {
		s.Idle = new(Duration)
		*s.Idle = DefaultIdle
	}
	for i := range s.Ports {
		if i == 0 && s.Runtime == Wasm {
			s.Ports[i].Protocol = cmp.Or(s.Ports[i].Protocol, "http")
		}
		fillPort(&s.Ports[i], i == 0)
	}
	// A function answers from its start on.
	if s.Readiness == nil && FirstTCP(s.Ports) != "" && s.Runtime != Wasm {
		s.Readiness = &Check{TCP: &TCPCheck{}}
	}
	fillCheck(s.Startup, s.Ports, DefaultInterval, DefaultStartupFailures)
	fillCheck(s.Readiness, s.Ports, DefaultInterval, DefaultFailures)
	fillCheck(s.Liveness, s.Ports, DefaultLivenessInterval, DefaultFailures)
	for name, f := range s.Files {
		f.Mode = cmp.Or(f.Mode, DefaultFileMode)
		s.Files[name] = f
	}
	// The ring of a GeoJSON polygon ends with its first point.
	if p := s.Affinity.Polygon; len(p) > 3 && p[0] == p[len(p)-1] {
		s.Affinity.Polygon = p[:len(p)-1]
	}
	s.Restart.Delay = cmp.Or(s.Restart.Delay, DefaultDelay)
	s.Restart.MaxDelay = cmp.Or(s.Restart.MaxDelay, max(DefaultMaxDelay, s.Restart.Delay))
	s.Restart.Policy = cmp.Or(s.Restart.Policy, "always")
	if s.Restart.MaxRestarts == nil {
		s.Restart.MaxRestarts = new(int)
		*s.Restart.MaxRestarts = DefaultMaxRestarts
	}
	s.Stop.Signal = cmp.Or(s.Stop.Signal, "TERM")
	s.Stop.Grace = cmp.Or(s.Stop.Grace, DefaultGrace)
	s.Spread = cmp.Or(s.Spread, "soft")
	if s.Policy.Name == PolicyProximity && !given("policy.alpha") {
		s.Policy.Alpha = DefaultAlpha
	}
	// Silence is kept where ports are for requests: what it means differs by port (see
	// wire.RequestRules), and orchestrators of before take it for round robin.
	if !s.Policy.IsZero() || !s.ForRequests() {
		s.Policy = s.Policy.Filled()
	}
	if s.ReplaceAfter == nil {
		s.ReplaceAfter = new(Duration)
		*s.ReplaceAfter = DefaultReplaceAfter
	}
	s.OnReturn = cmp.Or(s.OnReturn, "original")
}

func fillPort(p *Port, first bool) {
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

func fillCheck(c *Check, ports []Port, interval Duration, failures int) {
	if c == nil {
		return
	}
	c.Interval = cmp.Or(c.Interval, interval)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Failures = cmp.Or(c.Failures, failures)
	if len(ports) == 0 {
		return
	}
	first := cmp.Or(FirstTCP(ports), ports[0].Name)
	if c.HTTP != nil {
		c.HTTP.Port = cmp.Or(c.HTTP.Port, first)
	}
	if c.TCP != nil {
		c.TCP.Port = cmp.Or(c.TCP.Port, first)
	}
}
