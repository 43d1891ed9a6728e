package engine

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
)

// checkKind is what a check decides.
type checkKind string

const (
	startupCheck   checkKind = "startup"   // whether the instance is Running
	readinessCheck checkKind = "readiness" // whether it may get requests
	livenessCheck  checkKind = "liveness"  // whether it has to be started again
)

// check is a check of an instance with every default filled in.
type check struct {
	kind checkKind
	// One of three: a command, a GET of path on port, a connection to port.
	command  []string
	path     string
	port     int
	host     string       // "" is the machine's loopback
	hosts    []netip.Addr // of the instance, where it has its own
	interval time.Duration
	timeout  time.Duration
	failures int
	quick    bool // somebody waits for it to pass
	// hidden are values of secrets that a reason must not show. mute: they are not known,
	// so a reason shows nothing of a body.
	hidden [][]byte
	mute   bool
}

// name of a check in a reason: "readiness http /healthz".
func (c *check) name() string {
	switch {
	case c.command != nil:
		return fmt.Sprintf("%s command %s", c.kind, c.command[0])
	case c.path != "":
		return fmt.Sprintf("%s http %s", c.kind, c.path)
	}
	return fmt.Sprintf("%s tcp port %d", c.kind, c.port)
}

// checks of an instance; nil is none.
type checks struct{ startup, readiness, liveness *check }

// checksOf returns the checks of a service whose ports are ports.
func checksOf(spec *api.Service, ports map[string]int) (checks, error) {
	var out checks
	var errs []error
	for _, k := range []struct {
		kind checkKind
		spec *api.Check
		into **check
	}{
		{startupCheck, spec.Startup, &out.startup},
		{readinessCheck, readinessOf(spec), &out.readiness},
		{livenessCheck, spec.Liveness, &out.liveness},
	} {
		if k.spec == nil {
			continue
		}
		c, err := newCheck(k.kind, k.spec, spec.Ports, ports)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", k.kind, err))
			continue
		}
		*k.into = &c
	}
	return out, errors.Join(errs...)
}

// readinessOf is the readiness check of a service: a connection to its first port
// that takes any where it says nothing about it and has one.
func readinessOf(spec *api.Service) *api.Check {
	if spec.Runtime == api.Wasm {
		return spec.Readiness // the engine itself listens from the start on
	}
	if spec.Readiness == nil && takesConnections(spec.Ports) {
		return &api.Check{TCP: &api.TCPCheck{}}
	}
	return spec.Readiness
}

func takesConnections(ports []api.Port) bool {
	return slices.ContainsFunc(ports, func(p api.Port) bool { return p.Protocol != api.UDP })
}

// newCheck fills in what a check leaves out.
func newCheck(kind checkKind, c *api.Check, service []api.Port, ports map[string]int) (check, error) {
	out := check{kind: kind, interval: c.Interval.Std(), timeout: c.Timeout.Std(), failures: c.Failures}
	if out.interval <= 0 {
		out.interval = api.DefaultInterval.Std()
		if kind == livenessCheck {
			out.interval = api.DefaultLivenessInterval.Std()
		}
	}
	if out.timeout <= 0 {
		out.timeout = api.DefaultTimeout.Std()
	}
	if out.failures <= 0 {
		out.failures = api.DefaultFailures
		if kind == startupCheck {
			out.failures = api.DefaultStartupFailures
		}
	}
	var name string
	switch {
	case c.Exec != nil:
		if len(c.Exec.Command) == 0 {
			return check{}, errors.New("it has no command")
		}
		out.command = c.Exec.Command
		return out, nil
	case c.HTTP != nil:
		name, out.path = c.HTTP.Port, c.HTTP.Path
		// Without its slash a path could name another host.
		if !strings.HasPrefix(out.path, "/") {
			out.path = "/" + out.path
		}
	case c.TCP != nil:
		name = c.TCP.Port
	}
	if name == "" {
		if len(service) == 0 {
			return check{}, errors.New("the service has no port to check")
		}
		name = cmp.Or(api.FirstTCP(service), portName(&service[0]))
	}
	n, ok := ports[name]
	if !ok {
		return check{}, fmt.Errorf("the service has no port %q", name)
	}
	out.port = n
	return out, nil
}
