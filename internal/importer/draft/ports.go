package draft

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Tcp returns the TCP port with a number, and creates it if there is none.
func (l *Ports) Tcp(number int) *api.Port { return l.Add("", number, "") }

// Ports collects the ports of a service, each number once.
type Ports struct {
	List  []api.Port
	Names Names
}

// Add returns the port with a number, and creates it if there is none; said is its name in the
// source.
func (l *Ports) Add(said string, number int, protocol string) *api.Port {
	udp := protocol == api.UDP
	for i := range l.List {
		if p := &l.List[i]; p.Number == number && (p.Protocol == api.UDP) == udp {
			if p.Protocol == "tcp" && protocol != "" {
				p.Protocol = protocol
			}
			return p
		}
	}
	name := said
	if name == "" {
		name = "p" + strconv.Itoa(number)
		if udp {
			name += "-udp"
		}
	}
	if protocol == "" {
		protocol = "tcp"
	}
	l.List = append(l.List, api.Port{Name: l.Names.Unique(name), Number: number, Protocol: protocol})
	return &l.List[len(l.List)-1]
}

// ProtocolOf is Verge's protocol for an application protocol of a source.
func ProtocolOf(app string) string {
	switch strings.ToLower(app) {
	case "http", "http1", "http/1.1", "ws", "kubernetes.io/ws":
		return "http"
	case "grpc", "h2c", "http2", "kubernetes.io/h2c":
		return "grpc"
	}
	return ""
}

// PortVariables removes PORT and PORT_… from the environment, which Verge sets itself: PORT is the
// number of the first port, so the port with that number becomes the first.
func PortVariables(r *report.Report, d *source.Document, s *api.Service, at func(string) []string) {
	for _, env := range []map[string]string{s.Env, s.EnvSecrets} {
		for k, v := range env {
			if k != "PORT" && !strings.HasPrefix(k, "PORT_") {
				continue
			}
			delete(env, k)
			n, err := strconv.Atoi(v)
			i := slices.IndexFunc(s.Ports, func(p api.Port) bool { return p.Number == n && p.Protocol != api.UDP })
			switch {
			case k != "PORT":
				r.At(report.Lost, d, at(k), "%s is left out: variables that begin with PORT_ are set by Verge", k)
			case err == nil && i < 0 && n > 0 && n < 65536:
				l := Ports{List: s.Ports}
				l.Add("", n, "tcp")
				s.Ports = append([]api.Port{l.List[len(l.List)-1]}, s.Ports...)
				r.At(report.Said, d, at(k), "PORT is set by Verge: it is the number of the first port, which is %d", n)
			case err == nil && i >= 0:
				first := s.Ports[i]
				s.Ports = slices.Insert(slices.Delete(s.Ports, i, i+1), 0, first)
				r.At(report.Said, d, at(k), "PORT is set by Verge: it is the number of the first port, which is %d", n)
			default:
				r.At(report.Lost, d, at(k), "PORT is left out: it is set by Verge, to the number of the first port")
			}
		}
	}
	if len(s.Env) == 0 {
		s.Env = nil
	}
	if len(s.EnvSecrets) == 0 {
		s.EnvSecrets = nil
	}
}

// Publish publishes a port at the gateways, unless another service has it.
func Publish(p *api.Port, at int, taken map[string]string, by string) error {
	transport := "tcp"
	if p.Protocol == api.UDP {
		transport = "udp"
	}
	key := fmt.Sprintf("%d/%s", at, transport)
	switch {
	case p.Ingress != nil:
		return fmt.Errorf("%d is not published as well: a port is published once", at)
	case taken[key] != "":
		return fmt.Errorf("%s is not published: a port of the gateways leads to one service, and that is %s", key,
			taken[key])
	}
	taken[key] = by
	if p.Protocol == "http" || p.Protocol == "grpc" { // these are published by host name
		p.Protocol = "tcp"
	}
	p.Ingress = &api.Ingress{Port: at}
	return nil
}
