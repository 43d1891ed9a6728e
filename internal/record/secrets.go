package record

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Secret is the root's record of a secret, sealed for the root itself.
type Secret struct {
	wire.SealedSecret
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	// By set this value.
	By string `json:"by,omitempty"`
	// Expires is when the certificate that the value begins with does; zero where it is
	// none.
	Expires time.Time `json:"expires,omitzero"`
}
