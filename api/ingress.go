package api

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api/pattern"
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
	maxIngressPaths = 32
	maxIngressPath  = 200
	maxRate         = 1_000_000
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

// ingress checks that of a port.
func (v *validator) ingress(at string, p *Port) {
	i := p.Ingress
	given := func(field string) bool { _, ok := v.seen[at+"."+field]; return ok }
	not := func(why, remedy string, fields ...string) {
		for _, f := range fields {
			if given(f) {
				v.complain(at+"."+f, why, remedy)
			}
		}
	}
	if !p.ForRequests() {
		if !given("port") {
			v.complain(at, "an ingress needs protocol http, or a port of the gateways", "write protocol: http and a host, or port: 5432, or remove the ingress")
			return
		}
		not("means nothing to "+p.Protocol, "leave it out: a "+p.Protocol+" port is published by its number alone", "host", "paths", "strip_prefix", "tls", "redirect", "max_body", "body_timeout", "load_report")
		if p.Protocol == "udp" {
			not("means nothing to udp", "leave it out", "rate_limit")
		}
		v.claim(at+".port", p, "a port of the gateways leads to one port")
		v.rate(at+".rate_limit", i.RateLimit)
		return
	}
	not("is for tcp and udp ports", "leave it out, or write protocol: tcp and no host", "port", "proxy_protocol")
	if !v.host(at+".host", i.Host) {
		return
	}
	v.paths(at+".paths", i)
	v.claim(at+".host", p, "a host name (and path) leads to one port")
	switch {
	case i.StripPrefix && slices.Equal(i.Prefixes(), []string{""}):
		v.complain(at+".strip_prefix", "there is no path to take away", "write paths: [/api], or leave it out")
	case i.TLS.Mode != "" && i.TLS.Secret != "":
		v.complain(at+".tls", "needs one of mode and secret", "write tls: acme, or tls: {secret: NAME}")
	case given("tls") && i.TLS == IngressTLS{}:
		v.complain(at+".tls", "says nothing", "write tls: acme, or tls: {secret: NAME}, or leave it out")
	case i.TLS.Mode == TLSACME && strings.HasPrefix(i.Host, "*."):
		v.complain(at+".tls", "no certificate for a wildcard can be had by ACME over HTTP or TLS", "write tls: {secret: NAME}, or each host name")
	case i.Redirect != nil && *i.Redirect && !i.TLS.On():
		v.complain(at+".redirect", "there is no TLS to send clients to", "write tls: acme, or leave redirect out")
	}
	if i.TLS.Secret != "" {
		v.label(at+".tls.secret", i.TLS.Secret, "a secret", "shop-tls")
	}
	v.sameTLS(at, i)
	v.rate(at+".rate_limit", i.RateLimit)
}

// claim notes what a port takes for itself.
func (v *validator) claim(path string, p *Port, remedy string) {
	for _, c := range p.Claims() {
		if other, taken := v.hosts[c]; taken && other != path {
			v.complain(path, fmt.Sprintf("%s belongs to %s already", strconv.Quote(strings.TrimSuffix(c, "/")), other), remedy)
			return
		}
		v.hosts[c] = path
	}
}

// sameTLS: the certificate belongs to the host, whichever service a path leads to.
func (v *validator) sameTLS(at string, i *Ingress) {
	first, known := v.certificates[i.Host]
	if !known {
		v.certificates[i.Host] = hostTLS{at, i.TLS}
		return
	}
	if first.tls.On() != i.TLS.On() || first.tls != i.TLS && i.TLS.On() {
		v.complain(at+".tls", "is another than that of "+first.path+", which is of the same host", "write the same tls in both")
	}
}

// hostTLS is how a host has been given TLS in a descriptor.
type hostTLS struct {
	path string
	tls  IngressTLS
}

func (v *validator) rate(at string, r *RateLimit) {
	if r == nil {
		return
	}
	if _, given := v.seen[at+".requests"]; !given {
		v.complain(at+".requests", "is missing: a limit has a number of requests a second", "write requests: 20")
	}
}

// ingressPathRE: what every client and every server writes alike.
var ingressPathRE = pattern.Lazy(ingressPathPattern)

func (v *validator) paths(at string, i *Ingress) {
	if len(i.Paths) > maxIngressPaths {
		return // the decoder has said so
	}
	first := map[string]int{}
	for n, prefix := range i.Prefixes() {
		if len(i.Paths) == 0 {
			return
		}
		p, to := i.Paths[n], fmt.Sprintf("%s[%d]", at, n)
		switch j, twice := first[prefix]; {
		case !ingressPathRE().MatchString(p) || strings.Contains(p, "//") || p != "/" && path.Clean(p) != prefix:
			v.complain(to, quote(p)+" is not the beginning of a path", "write /api: letters, digits and -._~ between slashes, without . and .. and //")
		case len(p) > maxIngressPath:
			v.complain(to, fmt.Sprintf("has %d characters, at most %d are allowed", len(p), maxIngressPath), "")
		case twice:
			v.complain(to, fmt.Sprintf("is the same as paths[%d]", j), "remove one of them")
		}
		first[prefix] = n
	}
}

// ForRequests says whether a service has a port that speaks HTTP in one of its forms.
func (s *Service) ForRequests() bool {
	return slices.ContainsFunc(s.Ports, func(p Port) bool { return p.ForRequests() })
}
