package descriptor

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
)

// ingress checks that of a port.
func (v *validator) ingress(at string, p *api.Port) {
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
			v.complain(at, "an ingress needs protocol http, or a port of the gateways",
				"write protocol: http and a host, or port: 5432, or remove the ingress")
			return
		}
		not("means nothing to "+p.Protocol, "leave it out: a "+p.Protocol+" port is published by its number alone", "host",
			"paths", "strip_prefix", "tls", "redirect", "max_body", "body_timeout", "load_report")
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
	case given("tls") && i.TLS == api.IngressTLS{}:
		v.complain(at+".tls", "says nothing", "write tls: acme, or tls: {secret: NAME}, or leave it out")
	case i.TLS.Mode == api.TLSACME && strings.HasPrefix(i.Host, "*."):
		v.complain(at+".tls", "no certificate for a wildcard can be had by ACME over HTTP or TLS",
			"write tls: {secret: NAME}, or each host name")
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
func (v *validator) claim(path string, p *api.Port, remedy string) {
	for _, c := range p.Claims() {
		if other, taken := v.hosts[c]; taken && other != path {
			v.complain(path, fmt.Sprintf("%s belongs to %s already", strconv.Quote(strings.TrimSuffix(c, "/")), other), remedy)
			return
		}
		v.hosts[c] = path
	}
}

// sameTLS: the certificate belongs to the host, whichever service a path leads to.
func (v *validator) sameTLS(at string, i *api.Ingress) {
	first, known := v.certificates[i.Host]
	if !known {
		v.certificates[i.Host] = hostTLS{at, i.TLS}
		return
	}
	if first.tls.On() != i.TLS.On() || first.tls != i.TLS && i.TLS.On() {
		v.complain(at+".tls", "is another than that of "+first.path+", which is of the same host",
			"write the same tls in both")
	}
}

func (v *validator) rate(at string, r *api.RateLimit) {
	if r == nil {
		return
	}
	if _, given := v.seen[at+".requests"]; !given {
		v.complain(at+".requests", "is missing: a limit has a number of requests a second", "write requests: 20")
	}
}

// ingressPathRE: what every client and every server writes alike.
var ingressPathRE = pattern.Lazy(pattern.IngressPath)

func (v *validator) paths(at string, i *api.Ingress) {
	if len(i.Paths) > api.MaxIngressPaths {
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
			v.complain(to, words.Quote(p)+" is not the beginning of a path",
				"write /api: letters, digits and -._~ between slashes, without . and .. and //")
		case len(p) > api.MaxIngressPath:
			v.complain(to, fmt.Sprintf("has %d characters, at most %d are allowed", len(p), api.MaxIngressPath), "")
		case twice:
			v.complain(to, fmt.Sprintf("is the same as paths[%d]", j), "remove one of them")
		}
		first[prefix] = n
	}
}
