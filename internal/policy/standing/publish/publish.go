package publish

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// ParseHosts reads the hosts that a namespace may publish, "shop.example+*.shop.example",
// "any+localhost" or "none", and returns them in canonical form.
func ParseHosts(text string) (string, error) {
	return parsePublish(strings.ToLower(text), api.CheckHost)
}

// ParsePorts reads the ports of gateways that a namespace may publish,
// "5432/tcp+6000-6099", and returns them in canonical form.
func ParsePorts(text string) (string, error) {
	return parsePublish(strings.ToLower(text), func(e string) error {
		_, err := parsePortRange(e)
		return err
	})
}

func parsePublish(text string, check func(string) error) (string, error) {
	if text == "" || text == wire.PublishAny {
		return "", nil
	}
	if text == wire.PublishNone {
		return text, nil
	}
	entries := strings.Split(text, "+")
	for _, e := range entries {
		switch e {
		case wire.PublishAny:
			continue
		case wire.PublishNone:
			return "", fmt.Errorf("%s stands alone: leave it out, or leave out the rest", wire.PublishNone)
		}
		if err := check(e); err != nil {
			return "", err
		}
	}
	slices.Sort(entries)
	return strings.Join(slices.Compact(entries), "+"), nil
}

// portRange is an entry of Standing.Ports. protocol is "" for both.
type portRange struct {
	from, to int
	protocol string
}

func parsePortRange(text string) (r portRange, err error) {
	numbers, protocol, given := strings.Cut(text, "/")
	first, last, isRange := strings.Cut(numbers, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.ParseUint(first, 10, 16)
	to, err2 := strconv.ParseUint(last, 10, 16)
	if err1 != nil || err2 != nil || from < 1 || from > to || given && protocol != "tcp" && protocol != api.UDP {
		return r, fmt.Errorf("%q is not a port of the gateways: "+
			"write 5432, 5432/tcp, 53/udp or 6000-6099, joined by +, or any, or none", text)
	}
	return portRange{int(from), int(to), protocol}, nil
}

// has reports whether a port is in the range.
func (r portRange) has(port int, protocol string) bool {
	return r.from <= port && port <= r.to && (r.protocol == "" || r.protocol == protocol)
}

// Rules are the rules of namespaces, by name. The zero value allows every namespace what
// PublishAny allows.
type Rules map[string]*wire.Publish

// entries of a list, and whether everything that no other namespace reserves is allowed too.
func entries(list string) (names []string, anyOther bool) {
	for e := range strings.SplitSeq(list, "+") {
		switch e {
		case "", wire.PublishAny:
			anyOther = true
		case wire.PublishNone:
		default:
			names = append(names, e)
		}
	}
	return names, anyOther
}

// Forbids returns why a namespace may not publish a port at the gateways, "" if it may.
func (r Rules) Forbids(namespace string, p *api.Port) string {
	switch {
	case p.Ingress == nil:
		return ""
	case p.Ingress.Port != 0:
		return r.forbidsPort(namespace, p.Ingress.Port, cmp.Or(p.Protocol, "tcp"))
	}
	return r.forbidsHost(namespace, strings.ToLower(p.Ingress.Host))
}

func (r Rules) forbidsPort(namespace string, port int, protocol string) string {
	// The narrowest range wins, like the longest name among hosts.
	own, width := false, 1<<16
	for name, p := range r {
		list, _ := entries(p.Ports)
		for _, e := range list {
			x, err := parsePortRange(e)
			if err != nil || !x.has(port, protocol) || x.to-x.from > width {
				continue
			}
			if x.to-x.from < width {
				own, width = false, x.to-x.from
			}
			own = own || name == namespace
		}
	}
	what := fmt.Sprintf("port %d/%s", port, protocol)
	return forbidden(namespace, what, own, width < 1<<16, portsOf(r[namespace]))
}

func (r Rules) forbidsHost(namespace, host string) string {
	own, named := r.closest(namespace, host)
	if why := forbidden(namespace, host, own, named, hostsOf(r[namespace])); why != "" || own {
		return why
	}
	if ofTheMachine(host) {
		return fmt.Sprintf("%s is a name of every machine, for which a namespace needs permission", host)
	}
	for name, p := range r {
		list, _ := entries(p.Hosts)
		for _, e := range list {
			if name != namespace && IsWild(host) && Related(e, host) {
				return host + " would include names that are reserved for another namespace"
			}
		}
	}
	return ""
}

// forbidden is common to hosts and ports: the most specific entry decides; without one, whether the
// namespace may publish what nobody reserves.
func forbidden(namespace, what string, own, named bool, list string) string {
	_, anyOther := entries(list)
	switch {
	case own:
		return ""
	case named:
		return what + " is reserved for another namespace"
	case !anyOther:
		return fmt.Sprintf("%s is not among what namespace %s may publish (%s)", what, namespace, list)
	}
	return ""
}

func hostsOf(p *wire.Publish) string {
	if p == nil {
		return ""
	}
	return p.Hosts
}

func portsOf(p *wire.Publish) string {
	if p == nil {
		return ""
	}
	return p.Ports
}

// covers reports whether an entry of Standing.Hosts matches a host, and how specifically. The entry
// "*.d" matches all names below d, and their wildcards.
func covers(entry, host string) (closeness int, ok bool) {
	if entry == host {
		return 1 << 10, true // longer than any name
	}
	if domain, wild := strings.CutPrefix(entry, "*"); wild && strings.HasSuffix(host, domain) {
		return len(domain), true
	}
	return 0, false
}

// IsWild reports whether a host is a wildcard, "*.example.org".
func IsWild(host string) bool { return strings.HasPrefix(host, "*.") }

// Related reports whether the domains of two hosts or wildcards are equal, or one is below the
// other.
func Related(a, b string) bool {
	a, b = strings.TrimPrefix(a, "*."), strings.TrimPrefix(b, "*.")
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}

// ofTheMachine reports whether a host is a name of the local machine, such as localhost: its
// publisher would get requests that browsers send to local servers.
func ofTheMachine(host string) bool {
	switch host {
	case "localhost", "*.localhost", "localhost.localdomain", "*.localdomain":
		return true
	}
	return false
}

// Grants reports whether the namespace has an entry for the host, and no other namespace a more
// specific one.
func (r Rules) Grants(namespace, host string) bool {
	own, _ := r.closest(namespace, host)
	return own
}

// closest finds the most specific entry for a host: whether it is the namespace's, and whether
// there is one.
func (r Rules) closest(namespace, host string) (own, any bool) {
	longest := -1
	for name, p := range r {
		list, _ := entries(p.Hosts)
		for _, e := range list {
			n, ok := covers(e, host)
			if !ok || n < longest {
				continue
			}
			if n > longest {
				own, longest = false, n
			}
			own = own || name == namespace
		}
	}
	return own, longest >= 0
}

// Granting is a standing with one more host or port, in the syntax of the command line.
func Granting(s wire.Standing, p *api.Port) string {
	list, what := &s.Hosts, strings.ToLower(p.Ingress.Host)
	if p.Ingress.Port != 0 {
		list, what = &s.Ports, fmt.Sprintf("%d/%s", p.Ingress.Port, cmp.Or(p.Protocol, "tcp"))
	}
	if *list == wire.PublishNone {
		*list = what
	} else {
		*list = cmp.Or(*list, wire.PublishAny) + "+" + what
	}
	return s.String()
}
