package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
)

// What Standing.Hosts and Standing.Ports say besides names and numbers.
const (
	// PublishAny is the default: whatever is free, not reserved for another namespace, and
	// not a name of the machine itself.
	PublishAny  = "any"
	PublishNone = "none"
)

// Publish is what a namespace may publish at the gateways. The root tells it to the
// clusters for each namespace of which it says something.
type Publish struct {
	V     int    `json:"v"`
	Hosts string `json:"hosts,omitempty"` // as Standing.Hosts
	Ports string `json:"ports,omitempty"` // as Standing.Ports
}

// Publish is the part of a standing that is about the gateways; nil where it says nothing
// of them.
func (s Standing) Publish() *Publish {
	if s.Hosts == "" && s.Ports == "" {
		return nil
	}
	return &Publish{V: Version, Hosts: s.Hosts, Ports: s.Ports}
}

// Claims is a standing without what Publish says.
func (s Standing) Claims() Standing {
	s.Hosts, s.Ports = "", ""
	return s
}

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
	if text == "" || text == PublishAny {
		return "", nil
	}
	if text == PublishNone {
		return text, nil
	}
	entries := strings.Split(text, "+")
	for _, e := range entries {
		switch e {
		case PublishAny:
			continue
		case PublishNone:
			return "", fmt.Errorf("%s stands alone: leave it out, or leave out the rest", PublishNone)
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
		return r, fmt.Errorf("%q is not a port of the gateways: write 5432, 5432/tcp, 53/udp or 6000-6099, joined by +, or any, or none", text)
	}
	return portRange{int(from), int(to), protocol}, nil
}

// has reports whether a port is in the range.
func (r portRange) has(port int, protocol string) bool {
	return r.from <= port && port <= r.to && (r.protocol == "" || r.protocol == protocol)
}

// PublishRules are the Publish of namespaces, by name. The zero value allows every
// namespace what PublishAny does.
type PublishRules map[string]*Publish

// entries of a list, and whether everything that is nobody else's is allowed too.
func entries(list string) (names []string, anyOther bool) {
	for e := range strings.SplitSeq(list, "+") {
		switch e {
		case "", PublishAny:
			anyOther = true
		case PublishNone:
		default:
			names = append(names, e)
		}
	}
	return names, anyOther
}

// Forbids says why a namespace may not publish a port at the gateways, "" if it may.
func (r PublishRules) Forbids(namespace string, p *api.Port) string {
	switch {
	case p.Ingress == nil:
		return ""
	case p.Ingress.Port != 0:
		return r.forbidsPort(namespace, p.Ingress.Port, cmp.Or(p.Protocol, "tcp"))
	}
	return r.forbidsHost(namespace, strings.ToLower(p.Ingress.Host))
}

func (r PublishRules) forbidsPort(namespace string, port int, protocol string) string {
	// The narrowest range counts, as the longest name does among hosts.
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
	return forbidden(namespace, what, own, width < 1<<16, r[namespace].ports())
}

func (r PublishRules) forbidsHost(namespace, host string) string {
	own, named := r.closest(namespace, host)
	if why := forbidden(namespace, host, own, named, r[namespace].hosts()); why != "" || own {
		return why
	}
	if ofTheMachine(host) {
		return fmt.Sprintf("%s is a name of every machine, for which a namespace needs permission", host)
	}
	for name, p := range r {
		list, _ := entries(p.Hosts)
		for _, e := range list {
			if name != namespace && isWild(host) && related(e, host) {
				return host + " would include names that are reserved for another namespace"
			}
		}
	}
	return ""
}

// forbidden is the common part of both: the entry that fits best decides, without one it
// is whether the namespace may have what nobody is named for.
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

func (p *Publish) hosts() string {
	if p == nil {
		return ""
	}
	return p.Hosts
}

func (p *Publish) ports() string {
	if p == nil {
		return ""
	}
	return p.Ports
}

// covers reports whether an entry of Standing.Hosts is for a host, and how closely. The
// entry "*.d" is for all names below d, and for their wildcards.
func covers(entry, host string) (closeness int, ok bool) {
	if entry == host {
		return 1 << 10, true // longer than any name
	}
	if domain, wild := strings.CutPrefix(entry, "*"); wild && strings.HasSuffix(host, domain) {
		return len(domain), true
	}
	return 0, false
}

func isWild(host string) bool { return strings.HasPrefix(host, "*.") }

// related reports whether the domains of two hosts, or wildcards, are the same or one is
// below the other.
func related(a, b string) bool {
	a, b = strings.TrimPrefix(a, "*."), strings.TrimPrefix(b, "*.")
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}

// ofTheMachine reports whether a host is a name by which every machine calls itself:
// requests that a browser sends to a local server would come to whoever publishes it.
func ofTheMachine(host string) bool {
	switch host {
	case "localhost", "*.localhost", "localhost.localdomain", "*.localdomain":
		return true
	}
	return false
}

// names reports whether the host is given to the namespace by name, and to no other more
// closely.
func (r PublishRules) names(namespace, host string) bool {
	own, _ := r.closest(namespace, host)
	return own
}

// closest looks for the entry that fits a host best: whether it is one of the namespace,
// and whether there is any.
func (r PublishRules) closest(namespace, host string) (own, any bool) {
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

// granting is a standing with one more host or port, as the command line takes it.
func (s Standing) granting(p *api.Port) string {
	list, what := &s.Hosts, strings.ToLower(p.Ingress.Host)
	if p.Ingress.Port != 0 {
		list, what = &s.Ports, fmt.Sprintf("%d/%s", p.Ingress.Port, cmp.Or(p.Protocol, "tcp"))
	}
	if *list == PublishNone {
		*list = what
	} else {
		*list = cmp.Or(*list, PublishAny) + "+" + what
	}
	return s.String()
}
