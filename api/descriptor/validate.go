package descriptor

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
)

func validate(app *api.Application, d *decoder) {
	v := &validator{report: d.report, app: app, seen: d.seen, hosts: map[string]string{},
		certificates: map[string]hostTLS{}, addressed: map[netip.Addr]string{}}
	v.label("application", app.Application, "an application", "guestbook")
	v.label("namespace", app.Namespace, "a namespace", "team-a")
	switch n := len(app.Services); {
	case n == 0:
		v.complain("services", "there is no service", "write at least one, with a command")
	case n > api.MaxServices:
		v.complain("services", fmt.Sprintf("has %d services, at most %d are allowed", n, api.MaxServices),
			"divide the application")
	}
	for _, name := range app.ServiceNames() {
		v.service(where{}.field("services").entry(name).path, name, app.Services[name])
	}
}

func (v *validator) service(path, name string, s *api.Service) {
	// The name is a key: its place is that of the key, not of what it names.
	key := v.keyAt(path)
	switch {
	case len(name) > api.MaxNameLength:
		v.fail(key, path, fmt.Sprintf("the name of a service has at most %d characters, this one has %d", api.MaxNameLength,
			len(name)), "")
	case !labelRE().MatchString(name):
		v.fail(key, path, words.Quote(name)+" is not a name",
			"use small letters, digits and -, begin with a letter, do not end with -")
	}
	in := func(field string) string { return path + "." + field }
	v.runtime(path, s)
	v.security(path, s)
	v.replicas(path, s)
	v.job(path, s)
	v.cron(path, s)
	v.requests(path, s)
	if s.Limits.Memory < s.Resources.Memory && !v.spoiled(in("resources.memory")) {
		v.complain(in("limits.memory"), fmt.Sprintf("%s is less than the %s that resources.memory reserves", s.Limits.Memory,
			s.Resources.Memory),
			"raise the limit or lower the reservation")
	}
	if s.Limits.CPU != 0 && s.Limits.CPU < s.Resources.CPU && !v.spoiled(in("resources.cpu")) {
		v.complain(in("limits.cpu"), fmt.Sprintf("%s is less than the %s that resources.cpu reserves", s.Limits.CPU,
			s.Resources.CPU),
			"raise the limit or lower the reservation")
	}
	v.devices(path, s)
	v.ports(in("ports"), s.Ports)
	v.policy(in("policy"), s.Policy)
	v.serviceIP(in("service_ip"), s)
	v.check(in("startup"), s.Startup, s)
	v.check(in("readiness"), s.Readiness, s)
	v.check(in("liveness"), s.Liveness, s)
	v.placement(path, s)
	v.files(in("files"), s)
	v.volumes(in("volumes"), s)
	v.rollout(in("rollout"), s)
	if p := in("restart.max_restarts"); s.Restart.Policy == "never" && s.Job == nil {
		if _, given := v.seen[p]; given {
			v.warn(v.keyAt(p), p, "has no effect: restart.policy is never")
		}
	}
	if r := s.Restart; r.Delay > r.MaxDelay {
		v.complain(in("restart.max_delay"), fmt.Sprintf("%s is less than the %s of delay", r.MaxDelay, r.Delay),
			"raise it, or lower delay")
	}
	v.environment(in("env"), s)
	v.secrets(in("env_secrets"), s)
	v.templates(path, s)
}

// policy checks what the fields of one cannot say alone.
func (v *validator) policy(path string, p api.Policy) {
	_, named := v.seen[path+".name"]
	for _, field := range []string{"alpha", "beta", "decay", "localrtt", "fallback", "ordinal"} {
		if _, given := v.seen[path+"."+field]; given && !named {
			v.complain(path+".name", "is missing: a policy has a name", "write name: proximity")
			return
		}
	}
	if field, what, remedy := p.Problem(); what != "" {
		v.complain(path+"."+field, what, remedy)
	}
}

// requests checks what only a port for requests has an effect on.
func (v *validator) requests(path string, s *api.Service) {
	if api.TakesRequests(s.Ports) {
		return
	}
	for field, given := range map[string]bool{"concurrency": s.Concurrency != nil, "queue_max": s.QueueMax != nil,
		"timeout": s.Timeout != nil} {
		if given {
			v.complain(path+"."+field, "is for requests, for which the service has no port",
				"give one of its ports protocol: http, or leave it out")
		}
	}
}

// replicas checks how many there are to be, and what that is decided from: requests,
// which are counted at ports for them.
func (v *validator) replicas(path string, s *api.Service) {
	r, at := s.Replicas, path+".replicas"
	const port = "give one of its ports protocol: http"
	switch {
	case r.Max < r.Min:
		v.complain(at, fmt.Sprintf("max (%d) is less than min (%d)", r.Max, r.Min), "write a number")
	case r.Elastic() && !api.TakesRequests(s.Ports):
		v.complain(at, "max is above min, but the service has no port for requests, of which the number could be decided",
			port+", or write a number")
	case r.Elastic() && s.Pins():
		v.complain(at, "max is above min, but each instance has a named volume, which is kept for it alone",
			"write a number, or keep the data elsewhere")
	}
	if s.SLO != nil && !api.TakesRequests(s.Ports) {
		v.complain(path+".slo", "is for requests, for which the service has no port", port+", or leave it out")
	}
	if p := path + ".idle"; !r.ToZero() {
		if _, given := v.seen[p]; given {
			v.warn(v.keyAt(p), p, "has no effect: replicas.min is not 0")
		}
	}
}

// serviceIP is an address of a host, of one service, which has something there.
func (v *validator) serviceIP(path string, s *api.Service) {
	if s.ServiceIP == "" {
		return
	}
	a, err := netip.ParseAddr(s.ServiceIP)
	if err != nil || !a.Is4() || !a.IsPrivate() {
		v.complain(path, words.Quote(s.ServiceIP)+" is not a private IPv4 address",
			"write one of the root's --network-services, such as 10.30.0.10, or leave it out")
		return
	}
	if len(s.Ports) == 0 {
		v.complain(path, "the service has no ports", "give it ports, or leave service_ip out")
	}
	if other := v.addressed[a]; other != "" {
		v.complain(path, fmt.Sprintf("%s is also that of %s", a, other), "choose another one")
		return
	}
	v.addressed[a] = path
}

func (v *validator) ports(path string, ports []api.Port) {
	if len(ports) > api.MaxPorts {
		v.complain(path, fmt.Sprintf("has %d ports, at most %d are allowed", len(ports), api.MaxPorts), "divide the service")
		return
	}
	first := map[string]int{}
	for i, p := range ports {
		at := fmt.Sprintf("%s[%d]", path, i)
		if p.Name == "" {
			v.complain(at+".name", "is missing: only the first port may leave it out", "write name: <name>")
		} else {
			v.label(at+".name", p.Name, "a port", "http")
			if j, taken := first[p.Name]; taken {
				v.complain(at+".name", fmt.Sprintf("%s is also the name of ports[%d]", words.Quote(p.Name), j),
					"give each port its own name")
			} else {
				first[p.Name] = i
			}
		}
		if p.Ingress != nil {
			v.ingress(at+".ingress", &ports[i])
		}
	}
	v.numbers(path, ports)
}

// numbers of ports are different, each for datagrams and for connections.
func (v *validator) numbers(path string, ports []api.Port) {
	type transport struct {
		udp    bool
		number int
	}
	first := map[transport]int{}
	for i := range ports {
		t := transport{ports[i].Protocol == api.UDP, api.PortNumber(ports, i)}
		j, taken := first[t]
		if !taken {
			first[t] = i
			continue
		}
		at := fmt.Sprintf("%s[%d].number", path, i)
		if ports[i].Number == 0 { // it gets its own by its place
			at = fmt.Sprintf("%s[%d].number", path, j)
		}
		v.complain(at, fmt.Sprintf("%d is the number of ports[%d] and of ports[%d]", t.number, j, i),
			"give each port its own number")
	}
}

// host says whether it is the name of one, or a wildcard.
func (v *validator) host(path, host string) bool {
	if host == "" {
		v.complain(path, "is missing: an ingress has a host name", "write host: app.example.org")
		return false
	}
	what, remedy := api.HostProblem(host)
	if what != "" {
		v.complain(path, words.Quote(host)+" "+what, remedy)
	}
	return what == ""
}

func (v *validator) environment(path string, s *api.Service) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		v.variable(where{path: path}.entry(name).path, name)
	}
}

// variable is the name of one in env or env_secrets, which is at path.
func (v *validator) variable(path, name string) {
	switch {
	case !envNameRE().MatchString(name):
		v.fail(v.keyAt(path), path, words.Quote(name)+" is not the name of a variable",
			"use characters of ASCII that can be seen, without =")
	case ownVariable(name):
		v.fail(v.keyAt(path), path, "is set by Verge", "choose another name; VERGE_…, PORT and PORT_… are taken")
	}
}

// ownVariable says whether Verge sets variables of this name.
func ownVariable(name string) bool {
	return name == "PORT" || strings.HasPrefix(name, "PORT_") || strings.HasPrefix(name, "VERGE_")
}
