package engineapi

import (
	"fmt"
	"net/netip"
	"strings"
)

// GatewayConfig is how a worker is a gateway, beside its address for HTTP. The zero
// value is none with TLS.
type GatewayConfig struct {
	// TLSAddr to listen on for HTTP with TLS; "" is none.
	TLSAddr string `json:"tls_addr,omitempty"`
	// Ports are the first and the last at which tcp and udp ports may be published;
	// zero: any.
	Ports [2]uint16 `json:"ports,omitzero"`
	// ProxyFrom are the balancers in front that say by the PROXY protocol who the client
	// is, as prefixes of addresses; at most MaxProxyFrom.
	ProxyFrom []netip.Prefix `json:"proxy_from,omitempty"`
	// ACME is who gives certificates; the zero value is nobody.
	ACME ACMEConfig `json:"acme,omitzero"`
	// SelfSigned: all hosts have TLS, with certificates of its own where there are no
	// others.
	SelfSigned bool `json:"self_signed,omitempty"`
}

// MaxProxyFrom prefixes of balancers.
const MaxProxyFrom = 64

// ACMEConfig is an ACME server to whose terms the operator agrees.
type ACMEConfig struct {
	Directory string `json:"directory,omitempty"` // its URL
	Email     string `json:"email,omitempty"`     // to which it may write
	// CA is a file with the authorities that its own certificate is from, in PEM; ""
	// are those of the system.
	CA string `json:"ca,omitempty"`
}

// LetsEncrypt is the directory of the authority that everybody trusts.
const LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// String is how people write it, "" for the zero value.
func (c GatewayConfig) String() string {
	var out []string
	if c.TLSAddr != "" {
		out = append(out, c.TLSAddr)
	}
	if c.Ports != [2]uint16{} {
		out = append(out, fmt.Sprintf("ports %d-%d", c.Ports[0], c.Ports[1]))
	}
	if len(c.ProxyFrom) > 0 {
		from := make([]string, len(c.ProxyFrom))
		for i, p := range c.ProxyFrom {
			from[i] = p.String()
		}
		out = append(out, "proxy from "+strings.Join(from, ","))
	}
	if c.ACME.Directory != "" {
		out = append(out, strings.Join(strings.Fields("acme "+c.ACME.Directory+" "+c.ACME.Email+" "+c.ACME.CA), " "))
	}
	return strings.Join(out, ", ")
}
