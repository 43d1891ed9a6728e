package api

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api/pattern"
)

// validator checks what a single field cannot: names, references, and fields
// against each other. Complaints that would follow from another are left out.
type validator struct {
	*report
	app   *Application
	seen  map[string]placed
	hosts map[string]string // path of the port that has it, by host name and path, or port of the gateways
	// certificates by host name, as the first port of it says.
	certificates map[string]hostTLS
	// addressed are the paths that have a service address.
	addressed map[netip.Addr]string
	// services by the variables of their addresses, and the variables of the first
	// ports; made at the first reference.
	services  map[string]string
	addresses []string
}

func validate(app *Application, d *decoder) {
	v := &validator{report: d.report, app: app, seen: d.seen, hosts: map[string]string{}, certificates: map[string]hostTLS{}, addressed: map[netip.Addr]string{}}
	v.label("application", app.Application, "an application", "guestbook")
	v.label("namespace", app.Namespace, "a namespace", "team-a")
	switch n := len(app.Services); {
	case n == 0:
		v.complain("services", "there is no service", "write at least one, with a command")
	case n > MaxServices:
		v.complain("services", fmt.Sprintf("has %d services, at most %d are allowed", n, MaxServices), "divide the application")
	}
	for _, name := range app.ServiceNames() {
		v.service(where{}.field("services").entry(name).path, name, app.Services[name])
	}
}

// at is the place of the value at path, or of the nearest thing around it.
func (v *validator) at(path string) pos {
	for ; path != ""; path = enclosing(path) {
		if p, ok := v.seen[path]; ok {
			return p.value
		}
	}
	return pos{1, 1}
}

// keyAt is the same for the key.
func (v *validator) keyAt(path string) pos {
	if p, ok := v.seen[path]; ok {
		return p.key
	}
	return v.at(path)
}

// complain reports unless the value was complained about already. What is
// missing is reported at the key of what should have it.
func (v *validator) complain(path, message, remedy string) {
	if v.spoiled(path) {
		return
	}
	at := v.at(path)
	if _, given := v.seen[path]; !given {
		at = v.keyAt(enclosing(path))
	}
	v.fail(at, path, message, remedy)
}

var (
	labelRE = pattern.Lazy(labelPattern)
	siteRE  = pattern.Lazy(sitePattern)
	pathRE  = pattern.Lazy(pathPattern)
)

func (v *validator) label(path, name, what, example string) {
	switch {
	case v.spoiled(path):
	case name == "":
		v.complain(path, "is missing: "+what+" has a name", "write "+path[strings.LastIndexByte(path, '.')+1:]+": "+example)
	case len(name) > MaxNameLength:
		v.complain(path, fmt.Sprintf("%s has %d characters, a name has at most %d", quote(name), len(name), MaxNameLength), "")
	case !labelRE().MatchString(name):
		v.complain(path, quote(name)+" is not a name", "use small letters, digits and -, begin with a letter, do not end with -")
	}
}

func (v *validator) service(path, name string, s *Service) {
	// The name is a key: its place is that of the key, not of what it names.
	key := v.keyAt(path)
	switch {
	case len(name) > MaxNameLength:
		v.fail(key, path, fmt.Sprintf("the name of a service has at most %d characters, this one has %d", MaxNameLength, len(name)), "")
	case !labelRE().MatchString(name):
		v.fail(key, path, quote(name)+" is not a name", "use small letters, digits and -, begin with a letter, do not end with -")
	}
	in := func(field string) string { return path + "." + field }
	v.runtime(path, s)
	v.security(path, s)
	v.replicas(path, s)
	v.job(path, s)
	v.cron(path, s)
	v.requests(path, s)
	if s.Limits.Memory < s.Resources.Memory && !v.spoiled(in("resources.memory")) {
		v.complain(in("limits.memory"), fmt.Sprintf("%s is less than the %s that resources.memory reserves", s.Limits.Memory, s.Resources.Memory),
			"raise the limit or lower the reservation")
	}
	if s.Limits.CPU != 0 && s.Limits.CPU < s.Resources.CPU && !v.spoiled(in("resources.cpu")) {
		v.complain(in("limits.cpu"), fmt.Sprintf("%s is less than the %s that resources.cpu reserves", s.Limits.CPU, s.Resources.CPU),
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
		v.complain(in("restart.max_delay"), fmt.Sprintf("%s is less than the %s of delay", r.MaxDelay, r.Delay), "raise it, or lower delay")
	}
	v.environment(in("env"), s)
	v.secrets(in("env_secrets"), s)
	v.templates(path, s)
}

// policy checks what the fields of one cannot say alone.
func (v *validator) policy(path string, p Policy) {
	_, named := v.seen[path+".name"]
	for _, field := range []string{"alpha", "beta", "decay", "localrtt", "fallback", "ordinal"} {
		if _, given := v.seen[path+"."+field]; given && !named {
			v.complain(path+".name", "is missing: a policy has a name", "write name: proximity")
			return
		}
	}
	if field, what, remedy := p.problem(); what != "" {
		v.complain(path+"."+field, what, remedy)
	}
}

// requests checks what only a port for requests has an effect on.
func (v *validator) requests(path string, s *Service) {
	if TakesRequests(s.Ports) {
		return
	}
	for field, given := range map[string]bool{"concurrency": s.Concurrency != nil, "queue_max": s.QueueMax != nil, "timeout": s.Timeout != nil} {
		if given {
			v.complain(path+"."+field, "is for requests, for which the service has no port", "give one of its ports protocol: http, or leave it out")
		}
	}
}

// replicas checks how many there are to be, and what that is decided from: requests,
// which are counted at ports for them.
func (v *validator) replicas(path string, s *Service) {
	r, at := s.Replicas, path+".replicas"
	const port = "give one of its ports protocol: http"
	switch {
	case r.Max < r.Min:
		v.complain(at, fmt.Sprintf("max (%d) is less than min (%d)", r.Max, r.Min), "write a number")
	case r.Elastic() && !TakesRequests(s.Ports):
		v.complain(at, "max is above min, but the service has no port for requests, of which the number could be decided", port+", or write a number")
	case r.Elastic() && s.Pins():
		v.complain(at, "max is above min, but each instance has a named volume, which is kept for it alone", "write a number, or keep the data elsewhere")
	}
	if s.SLO != nil && !TakesRequests(s.Ports) {
		v.complain(path+".slo", "is for requests, for which the service has no port", port+", or leave it out")
	}
	if p := path + ".idle"; !r.ToZero() {
		if _, given := v.seen[p]; given {
			v.warn(v.keyAt(p), p, "has no effect: replicas.min is not 0")
		}
	}
}

// serviceIP is an address of a host, of one service, which has something there.
func (v *validator) serviceIP(path string, s *Service) {
	if s.ServiceIP == "" {
		return
	}
	a, err := netip.ParseAddr(s.ServiceIP)
	if err != nil || !a.Is4() || !a.IsPrivate() {
		v.complain(path, quote(s.ServiceIP)+" is not a private IPv4 address", "write one of the root's --network-services, such as 10.30.0.10, or leave it out")
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

func (v *validator) ports(path string, ports []Port) {
	if len(ports) > maxPorts {
		v.complain(path, fmt.Sprintf("has %d ports, at most %d are allowed", len(ports), maxPorts), "divide the service")
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
				v.complain(at+".name", fmt.Sprintf("%s is also the name of ports[%d]", quote(p.Name), j), "give each port its own name")
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
func (v *validator) numbers(path string, ports []Port) {
	type transport struct {
		udp    bool
		number int
	}
	first := map[transport]int{}
	for i := range ports {
		t := transport{ports[i].Protocol == UDP, PortNumber(ports, i)}
		j, taken := first[t]
		if !taken {
			first[t] = i
			continue
		}
		at := fmt.Sprintf("%s[%d].number", path, i)
		if ports[i].Number == 0 { // it gets its own by its place
			at = fmt.Sprintf("%s[%d].number", path, j)
		}
		v.complain(at, fmt.Sprintf("%d is the number of ports[%d] and of ports[%d]", t.number, j, i), "give each port its own number")
	}
}

// host says whether it is the name of one, or a wildcard.
func (v *validator) host(path, host string) bool {
	if host == "" {
		v.complain(path, "is missing: an ingress has a host name", "write host: app.example.org")
		return false
	}
	what, remedy := ingressHostProblem(host)
	if what != "" {
		v.complain(path, quote(host)+" "+what, remedy)
	}
	return what == ""
}

// ingressHostProblem says what keeps host from being the host of an ingress.
func ingressHostProblem(host string) (what, remedy string) {
	name, wild := strings.CutPrefix(host, "*.")
	what, remedy = hostProblem(name)
	if what == "" && wild && !strings.Contains(name, ".") && name != "localhost" {
		what, remedy = "would be every name of "+quote(name), "write *.example.org"
	}
	return what, remedy
}

// CheckHost says what keeps host, in lower case, from being the host of an ingress.
func CheckHost(host string) error {
	what, remedy := ingressHostProblem(host)
	if what == "" {
		return nil
	}
	return fmt.Errorf("%s %s: %s", quote(host), what, remedy)
}

var hostLabelRE = pattern.Lazy(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// hostProblem says what keeps host from being a DNS name.
func hostProblem(host string) (what, remedy string) {
	const alone = "write the name alone: app.example.org"
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "is an address, not a host name", alone
	}
	switch {
	case strings.Contains(host, "://"):
		return "has a scheme", alone
	case strings.Contains(host, "/"):
		return "has a path", alone
	case strings.Contains(host, ":"):
		return "has a port", alone
	case strings.Contains(host, "*"):
		return "has a wildcard within", "write *.example.org, or each host name"
	case len(host) > 253:
		return "is longer than 253 characters", ""
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !hostLabelRE().MatchString(label) {
			return "is not a host name", "write names of letters, digits and -, with dots between them: app.example.org"
		}
	}
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return "is an address, not a host name", alone
	}
	return "", ""
}

func (v *validator) environment(path string, s *Service) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		v.variable(where{path: path}.entry(name).path, name)
	}
}

// variable is the name of one in env or env_secrets, which is at path.
func (v *validator) variable(path, name string) {
	switch {
	case !envNameRE().MatchString(name):
		v.fail(v.keyAt(path), path, quote(name)+" is not the name of a variable", "use characters of ASCII that can be seen, without =")
	case ownVariable(name):
		v.fail(v.keyAt(path), path, "is set by Verge", "choose another name; VERGE_…, PORT and PORT_… are taken")
	}
}

// ownVariable says whether Verge sets variables of this name.
func ownVariable(name string) bool {
	return name == "PORT" || strings.HasPrefix(name, "PORT_") || strings.HasPrefix(name, "VERGE_")
}
