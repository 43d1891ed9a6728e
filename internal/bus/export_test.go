package bus

import (
	"time"

	"github.com/nats-io/jwt/v2"
)

// IssueFor makes a token of the account LOCAL with other permissions than a
// worker has.
func (c *ClusterServer) IssueFor(name string, key Key, allow Permissions) (string, error) {
	claims := jwt.NewUserClaims(key.Public())
	claims.Name = name
	claims.Pub.Allow.Add(allow.Publish...)
	claims.Sub.Allow.Add(allow.Subscribe...)
	claims.Sub.Allow.Add(inboxPrefix + name + ".>")
	claims.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
	return c.auth.issue(accountLocal, claims)
}

// Seed is the private half, for raw clients.
func (k Key) Seed() ([]byte, error) { return k.pair.Seed() }

// Sign signs a server's nonce, for raw clients.
func (k Key) Sign(nonce []byte) ([]byte, error) { return k.sign(nonce) }
