package doctor

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

const pageGateways = "docs/gateways.md#when-a-certificate-expires"

// Certificates checks those of a worker as a gateway; g is nil if it is none.
func Certificates(worker string, g *wire.GatewayInfo, now time.Time) (out []Finding) {
	if g == nil {
		return nil
	}
	for _, c := range g.Certificates {
		check := "certificate of " + c.Host + " at " + worker
		remedy := "get a new one, and set it: verge secret set NAME --cert FILE --key FILE"
		switch {
		case c.Source == "acme":
			remedy = "the ACME server must reach the gateway under that name at port 80 or 443; it is asked " +
				"again by itself"
		case c.Source == "self-signed":
			remedy = "make room on the disk of the worker, and give its folder to the user that runs verge"
		case c.Failed:
			remedy = "set a certificate for that host, with its key: verge secret set NAME --cert FILE --key FILE"
		}
		expired := !c.Expires.IsZero() && !now.Before(c.Expires) &&
			c.Source != "self-signed" // those are made when somebody asks
		switch {
		case expired:
			detail := c.Problem
			if detail == "" { // since the worker told of it
				detail = "it has expired at " + c.Expires.UTC().Format(time.RFC3339)
			}
			out = append(out, bad(Fail, check, pageGateways, remedy, "%s", detail))
		case c.Problem != "":
			out = append(out, bad(Warn, check, pageGateways, remedy, "%s", c.Problem))
		}
	}
	return out
}

// AboutCertificate says whether a problem in a status is one that Certificates finds.
func AboutCertificate(problem string) bool {
	return strings.HasPrefix(problem, "worker ") && strings.Contains(problem, ": gateway, host ")
}
