package enroll

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/pki"
)

// soonExpires is when people are told that their certificate does.
const soonExpires = 30 * 24 * time.Hour

// Notice is what to tell a caller of the HTTP interface about the context that it
// uses, "" if nothing: that it will stop to work when the rotation of the root's
// authority is finished (next is the pin of the next one, "" while there is no
// rotation), or when its certificate expires. file is where this tier writes a
// context that goes on.
func Notice(cs tls.ConnectionState, next, file string, now time.Time) string {
	switch chain := cs.PeerCertificates; {
	case next != "" && len(chain) == 0:
		return "the root's authority is being replaced: when that is finished, contexts that were made before it do not trust this server any more (verge ca status)"
	case next != "" && !pki.LeadsTo(cs, next):
		return "the root's authority is being replaced, and this context trusts the old one only: take " + file + " anew before that is finished (verge ca status)"
	case len(chain) > 0 && chain[0].NotAfter.Sub(now) < soonExpires:
		return fmt.Sprintf("the certificate of this context expires on %s: take %s anew", chain[0].NotAfter.UTC().Format(time.DateOnly), file)
	}
	return ""
}
