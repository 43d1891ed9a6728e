package bus

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/verge-edge/verge/internal/wire"
)

// The subjects of a worker with the id <id>, which its token is limited to.
const (
	// workerUp + id is the prefix of what a worker publishes.
	workerUp = "w."
	// workerDown + id is the prefix of what a worker is sent.
	workerDown = "o."
	// inboxPrefix + id is where the answers to a worker's requests go.
	inboxPrefix = "_INBOX_"
)

const (
	// nodeMaxPayload is that of workers and links: a message and room for what is
	// around it.
	nodeMaxPayload = wire.MaxMessageBytes + 1<<16
	// workerMaxSubs: a handful of its own subjects and the inbox.
	workerMaxSubs = 16
	// answerWindow is how long a worker may answer a request that it was sent.
	answerWindow = time.Minute
)

var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checkNodeName says whether s may name a cluster or a worker: a DNS label, so
// that it is one token of a subject.
func checkNodeName(kind, s string) error {
	if !nodeName.MatchString(s) {
		return fmt.Errorf("invalid %s name %.80q: must be 1 to 63 of a-z, 0-9 and '-', not starting or ending with '-'", kind, s)
	}
	return nil
}

// workerPermissions are all that a worker may say and hear.
func workerPermissions(id string) Permissions {
	return Permissions{
		Publish:   []string{workerUp + id + ".>"},
		Subscribe: []string{workerDown + id + ".>", inboxPrefix + id + ".>"},
	}
}

// workerClaims is the user of a worker in the account LOCAL.
func workerClaims(id, userKey string) *jwt.UserClaims {
	allow := workerPermissions(id)
	c := jwt.NewUserClaims(userKey)
	c.Name = id
	c.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard)
	c.Pub.Allow.Add(allow.Publish...)
	c.Sub.Allow.Add(allow.Subscribe...)
	c.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: answerWindow}
	c.Limits.Payload = nodeMaxPayload
	c.Limits.Subs = workerMaxSubs
	return c
}

// linkClaims is the user of a cluster's leaf link in its account at the root.
// The account is the wall; the denials keep the server's own services, which
// every account can ask about itself, to the root.
func linkClaims(cluster, userKey string) *jwt.UserClaims {
	c := jwt.NewUserClaims(userKey)
	c.Name = cluster
	c.AllowedConnectionTypes.Add(jwt.ConnectionTypeLeafnode)
	c.Pub.Deny.Add("$SYS.>", "$JS.>")
	c.Sub.Deny.Add("$SYS.>", "$JS.>")
	c.Limits.Payload = nodeMaxPayload
	return c
}

// ownUser is the name of the process that owns the server.
const ownUser = "$own"

// ownClaims is a user of the process that owns the server. The name cannot be
// a node's, so that no node is mistaken for it.
func ownClaims(userKey string) *jwt.UserClaims {
	c := jwt.NewUserClaims(userKey)
	c.Name = ownUser
	c.AllowedConnectionTypes.Add(jwt.ConnectionTypeInProcess)
	return c
}

// tokenPermissions reads what a user token allows, so that a refusal can be
// told to the caller at once and not only by the server later.
func tokenPermissions(token string) (Permissions, error) {
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return Permissions{}, fmt.Errorf("bus token is not readable: %w", err)
	}
	p := Everything()
	if len(claims.Pub.Allow) > 0 {
		p.Publish = claims.Pub.Allow
	}
	if slices.Contains(claims.Pub.Deny, ">") {
		p.Publish = nil
	}
	if len(claims.Sub.Allow) > 0 {
		p.Subscribe = claims.Sub.Allow
	}
	return p, nil
}
