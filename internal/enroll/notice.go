package enroll

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/pki"
)

// soonExpires is how long before expiry people are warned about their certificate.
const soonExpires = 30 * 24 * time.Hour

// Notice is a message for a caller of the HTTP interface about its context, "" for none: that the
// context will stop working when the rotation of the root's authority is finished (next is the
// pin of the next one, "" without a rotation), or when its certificate expires. file is where
// this tier writes a current context.
func Notice(cs tls.ConnectionState, next, file string, now time.Time) string {
	switch chain := cs.PeerCertificates; {
	case next != "" && len(chain) == 0:
		return "the root's authority is being replaced: once that is finished, older contexts no longer trust this " +
			"server (verge ca status)"
	case next != "" && !pki.LeadsTo(cs, next):
		return "the root's authority is being replaced, and this context trusts the old one only: take " + file +
			" anew before that is finished (verge ca status)"
	case len(chain) > 0 && chain[0].NotAfter.Sub(now) < soonExpires:
		return fmt.Sprintf("the certificate of this context expires on %s: take %s anew",
			chain[0].NotAfter.UTC().Format(time.DateOnly), file)
	}
	return ""
}
