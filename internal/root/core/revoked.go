package core

import (
	"strings"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/root/state"
)

// Refuse has this process refuse revoked keys: the root itself
// those of clusters, its relay also those that clusters say of their workers. It is called within Do.
func Refuse(c *Core) {
	own := ownRevoked(c.M)
	c.Revoked.Set(own)
	for key, r := range c.M.Revoked {
		if by, hash, _ := strings.Cut(key, "."); by == r.Cluster {
			own = append(own, pki.RevokedBy(by, hash))
		}
	}
	c.Barred.Set(own)
	if c.Relayed != nil {
		c.Relayed()
	}
}

// ownRevoked are the keys of clusters that are revoked.
func ownRevoked(m *state.Model) (out []string) {
	for hash := range m.Gone {
		out = append(out, pki.RevokedBy("", hash))
	}
	return out
}
