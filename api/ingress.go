package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Ingress publishes a port on every gateway: one for http and grpc under a Host,
// one for tcp and udp at a Port of the gateways.
type Ingress struct {
	// Host name of the requests that belong here; "*.example.org" is every name with
	// one label more. "" where Port is given.
	Host string `json:"host,omitempty"`
	// Paths are what the paths of those requests begin with, by whole segments; none
	// is "/". (Host, path) is unique at a root, and the longest one counts.
	Paths []string `json:"paths,omitempty"`
	// StripPrefix takes that beginning away before the service sees the path.
	StripPrefix bool `json:"strip_prefix,omitempty"`
	// TLS of the host; the zero value is none.
	TLS IngressTLS `json:"tls,omitzero"`
	// Redirect sends requests without TLS to the address with it. Nil: where there is
	// TLS.
	Redirect *bool `json:"redirect,omitempty"`
	// RateLimit of each client; nil is none.
	RateLimit *RateLimit `json:"rate_limit,omitempty"`
	// MaxBody of a request; 0 is not bounded.
	MaxBody Bytes `json:"max_body,omitempty"`
	// BodyTimeout is how long a client may send nothing of a body that it has begun;
	// 0 is DefaultBodyTimeout, which streams over HTTP/2 do not have.
	BodyTimeout Duration `json:"body_timeout,omitempty"`
	// LoadReport leaves the load report of the service in answers to clients; else the
	// gateway takes it out.
	LoadReport bool `json:"load_report,omitempty"`
	// Port of the gateways, unique at a root for each protocol; 0 where Host is given.
	Port int `json:"port,omitempty"`
	// ProxyProtocol tells the service the address of the client by the PROXY protocol,
	// version 2: before the first byte of a connection, in front of each datagram.
	ProxyProtocol bool `json:"proxy_protocol,omitempty"`
}

// IngressTLS says where the certificate of a host is from: exactly one of Mode and
// Secret is set. It is written as the mode alone where there is nothing to tell.
type IngressTLS struct {
	// Mode is TLSACME, TLSSelfSigned or TLSOff.
	Mode string `json:"mode,omitempty"`
	// Secret of the namespace that holds the chain and its private key in PEM.
	Secret string `json:"secret,omitempty"`
}

// Modes of IngressTLS.
const (
	TLSACME       = "acme"
	TLSSelfSigned = "self-signed"
	TLSOff        = "off"
)

// On says whether there is TLS.
func (t IngressTLS) On() bool { return t.Secret != "" || t.Mode != "" && t.Mode != TLSOff }

// RateLimit bounds the requests of one client (or, of a tcp port, its connections)
// at each gateway.
type RateLimit struct {
	Requests int `json:"requests"`        // a second
	Burst    int `json:"burst,omitempty"` // at once; 0 is Requests
}

// DefaultBodyTimeout is that of Ingress.BodyTimeout.
const DefaultBodyTimeout Duration = 60e9

// Bounds of an Ingress.
const (
	MaxIngressPaths = 32
	MaxIngressPath  = 200
	MaxRate         = 1_000_000
)

// Prefixes are the Paths as they are compared: without final slash, "" for all.
func (i *Ingress) Prefixes() []string {
	if len(i.Paths) == 0 {
		return []string{""}
	}
	out := make([]string, len(i.Paths))
	for n, p := range i.Paths {
		out[n] = strings.TrimSuffix(p, "/")
	}
	return out
}

// Redirects says whether requests without TLS are sent away.
func (i *Ingress) Redirects() bool {
	if i.Redirect != nil {
		return *i.Redirect
	}
	return i.TLS.On()
}

// ForRequests says whether a port speaks HTTP in one of its forms.
func (p *Port) ForRequests() bool {
	switch p.Protocol {
	case "http", "grpc":
		return true
	case "":
		return p.Name == "http" || p.Ingress != nil && p.Ingress.Port == 0
	}
	return false
}

// Claims are what the ingress of a port takes for itself at a root, as people read
// it: "app.example.org/api", "port 5432/tcp". None where there is no ingress.
func (p *Port) Claims() []string {
	switch {
	case p.Ingress == nil:
		return nil
	case p.Ingress.Port != 0:
		return []string{fmt.Sprintf("port %d/%s", p.Ingress.Port, cmp.Or(p.Protocol, "tcp"))}
	}
	var out []string
	for _, prefix := range p.Ingress.Prefixes() {
		out = append(out, strings.ToLower(p.Ingress.Host)+cmp.Or(prefix, "/"))
	}
	return out
}

// IngressSecrets are the names of the secrets with certificates that gateways need
// to publish s, in order, each once. Its instances do not see them.
func (s *Service) IngressSecrets() []string { return IngressSecrets(s.Ports) }

// IngressSecrets is the same for ports.
func IngressSecrets(ports []Port) (names []string) {
	for _, p := range ports {
		if p.Ingress != nil && p.Ingress.TLS.Secret != "" {
			names = append(names, p.Ingress.TLS.Secret)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ForRequests says whether a service has a port that speaks HTTP in one of its forms.
func (s *Service) ForRequests() bool {
	return slices.ContainsFunc(s.Ports, func(p Port) bool { return p.ForRequests() })
}
