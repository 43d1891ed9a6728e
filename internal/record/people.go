package record

import (
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Namespace is the stored form of a namespace: who applications and secrets
// belong to. DefaultNamespace exists without a record.
type Namespace struct {
	V        int           `json:"v"`
	Name     string        `json:"name"`
	Quota    wire.Quota    `json:"quota,omitzero"`
	Standing wire.Standing `json:"standing,omitzero"`
	Created  time.Time     `json:"created"`
	By       string        `json:"by,omitempty"` // who created it
}

// User is the stored form of a person, or of a program.
type User struct {
	V    int    `json:"v"`
	Name string `json:"name"`
	wire.Roles
	Created time.Time `json:"created"`
	By      string    `json:"by,omitempty"` // who created it
	// Token is the one by which it is known; there is one at a time.
	Token UserToken `json:"token"`
}

// UserToken is what is kept of a user's token.
type UserToken struct {
	Hash    string    `json:"hash"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}
