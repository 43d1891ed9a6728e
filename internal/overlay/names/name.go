package names

import (
	"net/netip"
	"strconv"
	"strings"
)

// Zone of all names of services.
const Zone = "verge.internal."

// Any is the first label of a name that means no certain instance.
const Any = "any"

// Name of a service, or of one instance.
type Name struct {
	// Instance is the ordinal; -1 is any.
	Instance int
	// Policy is "" for the service's own.
	Policy                                       string
	Service, ServiceNamespace, App, AppNamespace string
	// Port and Proto are those of a question for a service's port, without the
	// underscores; "" of other names.
	Port, Proto string
}

// Answer to a Name.
type Answer struct {
	// Unknown: it is unknown at the moment, and the other fields mean nothing.
	Unknown bool
	// Found: there is such a name. It may be without addresses all the same.
	Found bool
	Addrs []netip.Addr
	// Ports by the name that they have in the descriptor.
	Ports []Port
}

// Port of a service.
type Port struct {
	Name, Proto string
	Number      uint16
}

// Parse reads a name. Inside says that it is one of the zone, ok that it has the
// form of one.
func Parse(fqdn string) (n Name, inside, ok bool) {
	fqdn = strings.ToLower(fqdn)
	rest, inside := strings.CutSuffix(fqdn, Zone)
	if !inside || (rest != "" && !strings.HasSuffix(rest, ".")) {
		return Name{}, false, false
	}
	labels := strings.Split(strings.TrimSuffix(rest, "."), ".")
	n.Instance = -1
	if len(labels) > 2 && strings.HasPrefix(labels[0], "_") && strings.HasPrefix(labels[1], "_") {
		n.Port, n.Proto = labels[0][1:], labels[1][1:]
		labels = labels[2:]
	}
	if len(labels) == 6 {
		if labels[0] != Any {
			i, err := strconv.Atoi(labels[0])
			if err != nil || i < 0 || strconv.Itoa(i) != labels[0] {
				return Name{}, true, false
			}
			n.Instance = i
		}
		labels = labels[1:]
	}
	if len(labels) == 5 {
		n.Policy = labels[0]
		labels = labels[1:]
	}
	if len(labels) != 4 {
		return Name{}, true, false
	}
	n.Service, n.ServiceNamespace, n.App, n.AppNamespace = labels[0], labels[1], labels[2], labels[3]
	return n, true, true
}

// Search is the domain in which instances of an application look for names.
func Search(app, namespace string) string {
	return namespace + "." + app + "." + namespace + "." + strings.TrimSuffix(Zone, ".")
}

// Resolver is the content of an instance's /etc/resolv.conf.
func Resolver(servers []netip.Addr, app, namespace string) []byte {
	var b strings.Builder
	for _, s := range servers {
		b.WriteString("nameserver " + s.String() + "\n")
	}
	b.WriteString("search " + Search(app, namespace) + "\n")
	// "any.closest.detector" has two dots and is looked for here first.
	b.WriteString("options ndots:3 timeout:2 attempts:2\n")
	return []byte(b.String())
}
