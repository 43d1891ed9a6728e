package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
)

// Kind is what a check decides.
type Kind string

// The kinds of checks.
const (
	Startup   Kind = "startup"   // whether the instance is Running
	Readiness Kind = "readiness" // whether it may get requests
	Liveness  Kind = "liveness"  // whether it has to be started again
)

// Check is a check of an instance with every default filled in.
type Check struct {
	Kind Kind
	// One of three: a command, a GET of path on port, a connection to port.
	Command  []string
	Path     string
	port     int
	host     string       // "" is the machine's loopback
	Hosts    []netip.Addr // of the instance, where it has its own
	interval time.Duration
	Timeout  time.Duration
	failures int
	Quick    bool // somebody waits for it to pass
	// Hidden are values of secrets that a reason must not show. Mute: they are not known, so that
	// a reason shows nothing of a body.
	Hidden [][]byte
	Mute   bool
}

// name of a check in a reason: "readiness http /healthz".
func (c *Check) name() string {
	switch {
	case c.Command != nil:
		return fmt.Sprintf("%s command %s", c.Kind, c.Command[0])
	case c.Path != "":
		return fmt.Sprintf("%s http %s", c.Kind, c.Path)
	}
	return fmt.Sprintf("%s tcp port %d", c.Kind, c.port)
}

// Checks of an instance; nil is none.
type Checks struct{ Startup, Readiness, Liveness *Check }

// Of returns the checks of a service whose ports are ports.
func Of(spec *api.Service, ports map[string]int) (Checks, error) {
	var out Checks
	var errs []error
	for _, k := range []struct {
		kind Kind
		spec *api.Check
		into **Check
	}{
		{Startup, spec.Startup, &out.Startup},
		{Readiness, ReadinessOf(spec), &out.Readiness},
		{Liveness, spec.Liveness, &out.Liveness},
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

// ReadinessOf is the readiness check of a service. Where the descriptor has none it is a
// connection to the first port that takes connections.
func ReadinessOf(spec *api.Service) *api.Check {
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
func newCheck(kind Kind, c *api.Check, service []api.Port, ports map[string]int) (Check, error) {
	out := Check{Kind: kind, interval: c.Interval.Std(), Timeout: c.Timeout.Std(), failures: c.Failures}
	if out.interval <= 0 {
		out.interval = api.DefaultInterval.Std()
		if kind == Liveness {
			out.interval = api.DefaultLivenessInterval.Std()
		}
	}
	if out.Timeout <= 0 {
		out.Timeout = api.DefaultTimeout.Std()
	}
	if out.failures <= 0 {
		out.failures = api.DefaultFailures
		if kind == Startup {
			out.failures = api.DefaultStartupFailures
		}
	}
	var name string
	switch {
	case c.Exec != nil:
		if len(c.Exec.Command) == 0 {
			return Check{}, errors.New("it has no command")
		}
		out.Command = c.Exec.Command
		return out, nil
	case c.HTTP != nil:
		name, out.Path = c.HTTP.Port, c.HTTP.Path
		// Without its slash a path could name another host.
		if !strings.HasPrefix(out.Path, "/") {
			out.Path = "/" + out.Path
		}
	case c.TCP != nil:
		name = c.TCP.Port
	}
	if name == "" {
		if len(service) == 0 {
			return Check{}, errors.New("the service has no port to check")
		}
		name = cmp.Or(api.FirstTCP(service), state.PortName(&service[0]))
	}
	n, ok := ports[name]
	if !ok {
		return Check{}, fmt.Errorf("the service has no port %q", name)
	}
	out.port = n
	return out, nil
}

// Checker is what checks the running task of an instance.
type Checker struct {
	Checks
	Ready bool // what was known before
	Probe func(context.Context, *Check) error
}

// Run makes the checks until ctx is done: the startup check first, then the others. tell gets
// their results.
func (x Checker) Run(ctx context.Context, tell func(Result)) {
	one := func(c *Check, passing bool) (passed bool) {
		probeUntil(ctx, *c, passing, func(ctx context.Context) error { return x.Probe(ctx, c) }, func(v Result) bool {
			tell(v)
			passed = v.Pass
			return v.Final || v.Kind == Startup && v.Pass
		})
		return passed
	}
	if x.Startup != nil && !one(x.Startup, false) {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if x.Readiness != nil {
		wg.Go(func() { one(x.Readiness, x.Ready) })
	}
	if x.Liveness != nil {
		wg.Go(func() { one(x.Liveness, true) })
	}
}
