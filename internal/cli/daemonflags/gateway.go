package daemonflags

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/verge-edge/verge/internal/engineapi"
)

// acmeFlags are as they are written.
type acmeFlags struct {
	agree     bool
	ports     string
	proxyFrom []string
}

// gatewayFlags adds those of how a worker is a gateway, beside --gateway.
func gatewayFlags(fl *pflag.FlagSet, g *engineapi.GatewayConfig, a *acmeFlags) {
	fl.StringVar(&g.TLSAddr, "gateway-tls", "",
		"address for users' requests with TLS, for example :8443 (default: none)")
	fl.StringVar(&a.ports, "gateway-ports", "",
		"range in which services may publish tcp and udp ports, as 1024-65535 (default: any)")
	fl.StringSliceVar(&a.proxyFrom, "gateway-proxy-from", nil,
		"balancers in front of the gateway, as 10.0.0.0/24,192.0.2.7, whose connections begin with a PROXY "+
			"protocol header")
	fl.BoolVar(&a.agree, "acme-agree", false,
		"agree to the terms of the ACME server, and get certificates from it for hosts with \"tls: acme\"")
	fl.StringVar(&g.ACME.Directory, "acme-directory", "", "directory URL of the ACME server (default: Let's Encrypt)")
	fl.StringVar(&g.ACME.Email, "acme-email", "", "email address for the ACME server's notices")
	fl.StringVar(&g.ACME.CA, "acme-ca", "",
		"file (PEM) with the authorities of the ACME server's own certificate (default: the system's)")
}

// settleGateway checks them.
func settleGateway(plain string, g *engineapi.GatewayConfig, a *acmeFlags) (err error) {
	noneIsEmpty(&g.TLSAddr)
	if g.Ports, err = portRange("--gateway-ports", a.ports); err != nil {
		return err
	}
	if g.ProxyFrom, err = prefixes("--gateway-proxy-from", a.proxyFrom); err != nil {
		return err
	}
	if err := optionalAddress("--gateway-tls", g.TLSAddr); err != nil {
		return err
	}
	switch {
	case !a.agree && g.ACME != engineapi.ACMEConfig{}:
		return errMustBe("--acme-agree", "false",
			"given with the other settings of ACME: the server has terms to agree to")
	case a.agree && g.TLSAddr == "":
		return errMustBe("--gateway-tls", `""`, "given with --acme-agree")
	case plain == "" && g.TLSAddr == "" && a.ports != "":
		return errMustBe("--gateway", `""`, "given with --gateway-ports")
	case plain == "" && g.TLSAddr == "" && len(g.ProxyFrom) > 0:
		return errMustBe("--gateway", `""`, "given with --gateway-proxy-from")
	case !a.agree:
		return nil
	}
	if g.ACME.Directory == "" {
		g.ACME.Directory = engineapi.LetsEncrypt
	}
	if u, err := url.Parse(g.ACME.Directory); err != nil || u.Scheme != "https" || u.Host == "" {
		return errMustBe("--acme-directory", strconv.Quote(g.ACME.Directory),
			"the URL of a directory, as "+engineapi.LetsEncrypt)
	}
	if g.ACME.CA == "" {
		return nil
	}
	files := []string{g.ACME.CA}
	err = directories("--acme-ca", files) // the engine has another working directory
	g.ACME.CA = files[0]
	return err
}

// prefixes reads a list of prefixes of addresses; an address alone is one.
func prefixes(flag string, list []string) (out []netip.Prefix, _ error) {
	if len(list) > engineapi.MaxProxyFrom {
		return nil, errMustBe(flag, strconv.Itoa(len(list))+" entries",
			fmt.Sprintf("a list of at most %d", engineapi.MaxProxyFrom))
	}
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if a, aerr := netip.ParseAddr(s); aerr == nil && a.Zone() == "" {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p != p.Masked() || p.Addr().Is4In6() {
			return nil, errMustBe(flag, strconv.Quote(s), "an address, or a network as 10.0.0.0/24 or 2001:db8::/64")
		}
		out = append(out, p)
	}
	return out, nil
}
