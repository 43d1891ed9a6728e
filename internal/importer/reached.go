package importer

import (
	"slices"
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// With Docker and Oakestra all ports of a container can be reached, whether its file has
// them or not. With Verge it is those of the descriptor, so that one which others name in
// an address (db:5432, http://10.30.0.2:8080/) becomes one of the service.

// addressRE finds hosts with a port. What stands around them is no part of a name, of a
// version or of a longer number.
var addressRE = pattern.Lazy(`(//|@)?\b([A-Za-z0-9][-\w.]*):(\d{2,5})($|[^-\w.])`)

// maxAddresses is the most that is looked for in one text, and maxReached the most ports
// that a service gets by it.
const (
	maxAddresses = 100
	maxReached   = 32
)

// leastReached is the least port of what may be a tag of an image: redis:7.
const leastReached = 80

// hostPort is a host and a port that a text names.
type hostPort struct {
	host string
	port int
}

// String writes host:port.
func (a hostPort) String() string { return a.host + ":" + strconv.Itoa(a.port) }

// addresses are those in texts.
func addresses(texts ...string) (out []hostPort) {
	for _, text := range texts {
		for _, m := range addressRE().FindAllStringSubmatch(text, maxAddresses) {
			n, err := strconv.Atoi(m[3])
			if err != nil || n > 65535 || n < leastReached && m[1] == "" {
				continue
			}
			if a := (hostPort{m[2], n}); !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// reach gives a service a port over TCP that others reach it at. It says whether the service
// had none of this number.
func reach(s *api.Service, number int) bool {
	if len(s.Ports) >= maxReached || slices.ContainsFunc(s.Ports, func(p api.Port) bool { return p.Number == number }) {
		return false
	}
	l := &portList{ports: s.Ports}
	for _, p := range s.Ports {
		l.names.unique(p.Name)
	}
	l.add("", number, "")
	s.Ports = l.ports
	return true
}
