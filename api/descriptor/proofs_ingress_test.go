package descriptor

import (
	"maps"
)

func init() {
	maps.Copy(proofs, ingressProofs)
}

// ingressProofs are those of what gateways publish.
var ingressProofs = map[string]proof{
	"services.*.ports[].ingress":                     {"ports: [{ingress: {host: a.b}}]", "ports: [{protocol: tcp, ingress: {host: a.b}}]", "an ingress needs protocol http", router + "TestGatewayRotatesPerRequest"},
	"services.*.ports[].ingress.host":                {"ports: [{ingress: {host: A.b}}]", "ports: [{ingress: {host: 'http://a.b'}}]", "has a scheme", "internal/proxy/ingress.TestCanonicalHost"},
	"services.*.ports[].ingress.paths":               {"ports: [{ingress: {host: a.b, paths: [/api/, /x]}}]", "ports: [{ingress: {host: a.b, paths: [/api/../x]}}]", "is not the beginning of a path", router + "TestGatewayPaths"},
	"services.*.ports[].ingress.strip_prefix":        {"ports: [{ingress: {host: a.b, paths: /api, strip_prefix: true}}]", "ports: [{ingress: {host: a.b, strip_prefix: true}}]", "there is no path to take away", router + "TestGatewayPaths"},
	"services.*.ports[].ingress.tls":                 {"ports: [{ingress: {host: a.b, tls: acme}}]", "ports: [{ingress: {host: '*.b.c', tls: acme}}]", "no certificate for a wildcard", router + "TestGatewaySelfSigned"},
	"services.*.ports[].ingress.tls.mode":            {"ports: [{ingress: {host: a.b, tls: {mode: self-signed}}}]", "ports: [{ingress: {host: a.b, tls: always}}]", "is not a value of tls", router + "TestGatewaySelfSigned"},
	"services.*.ports[].ingress.tls.secret":          {"ports: [{ingress: {host: a.b, tls: {secret: shop-tls}}}]", "ports: [{ingress: {host: a.b, tls: {secret: Shop}}}]", "is not a name", router + "TestGatewayGivenCertificate"},
	"services.*.ports[].ingress.redirect":            {"ports: [{ingress: {host: a.b, tls: acme, redirect: false}}]", "ports: [{ingress: {host: a.b, redirect: true}}]", "there is no TLS to send clients to", router + "TestGatewayRedirects"},
	"services.*.ports[].ingress.rate_limit":          {"ports: [{ingress: {host: a.b, rate_limit: {requests: 5}}}]", "ports: [{ingress: {host: a.b, rate_limit: 5}}]", "expected a mapping", router + "TestGatewayLimitsEachClient"},
	"services.*.ports[].ingress.rate_limit.requests": {"ports: [{ingress: {host: a.b, rate_limit: {requests: 5}}}]", "ports: [{ingress: {host: a.b, rate_limit: {burst: 5}}}]", "is missing", router + "TestGatewayLimitsEachClient"},
	"services.*.ports[].ingress.rate_limit.burst":    {"ports: [{ingress: {host: a.b, rate_limit: {requests: 5, burst: 9}}}]", "ports: [{ingress: {host: a.b, rate_limit: {requests: 5, burst: 0}}}]", "is less than 1", router + "TestGatewayLimitsEachClient"},
	"services.*.ports[].ingress.max_body":            {"ports: [{ingress: {host: a.b, max_body: 10Mi}}]", "ports: [{ingress: {host: a.b, max_body: 0}}]", "is less than 1", router + "TestGatewayBoundsBodies"},
	"services.*.ports[].ingress.body_timeout":        {"ports: [{ingress: {host: a.b, body_timeout: 5s}}]", "ports: [{ingress: {host: a.b, body_timeout: 5ms}}]", "is less than 1s", router + "TestGatewayBoundsBodies"},
	"services.*.ports[].ingress.load_report":         {"ports: [{ingress: {host: a.b, load_report: true}}]", "ports: [{protocol: tcp, ingress: {port: 5432, load_report: true}}]", "means nothing to tcp", router + "TestGatewayLoadReport"},
	"services.*.ports[].ingress.port":                {"ports: [{ingress: {port: 5432}}]", "ports: [{protocol: http, ingress: {host: a.b, port: 5432}}]", "is for tcp and udp ports", router + "TestGatewayPublishesTCP"},
	"services.*.ports[].ingress.proxy_protocol":      {"ports: [{protocol: udp, ingress: {port: 53, proxy_protocol: true}}]", "ports: [{ingress: {host: a.b, proxy_protocol: true}}]", "is for tcp and udp ports", router + "TestGatewayTellsTheClient"},
}
