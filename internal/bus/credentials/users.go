package credentials

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// The subjects of a worker with the id <id>, which its token is limited to.
const (
	// workerUp + id is the prefix of what a worker publishes.
	workerUp = "w."
	// workerDown + id is the prefix of what a worker is sent.
	workerDown = "o."
	// InboxPrefix + id is where the answers to a worker's requests go.
	InboxPrefix = "_INBOX_"
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

// CheckNodeName says whether s may name a cluster or a worker: a DNS label, so
// that it is one token of a subject.
func CheckNodeName(kind, s string) error {
	if !nodeName.MatchString(s) {
		return fmt.Errorf("invalid %s name %.80q: must be 1 to 63 of a-z, 0-9 and '-', not starting or ending with '-'", kind, s)
	}
	return nil
}

// workerPermissions are all that a worker may say and hear.
func workerPermissions(id string) bus.Permissions {
	return bus.Permissions{
		Publish:   []string{workerUp + id + ".>"},
		Subscribe: []string{workerDown + id + ".>", InboxPrefix + id + ".>"},
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

// OwnUser is the name of the process that owns the server.
const OwnUser = "$own"

// ownClaims is a user of the process that owns the server. The name cannot be
// a node's, so that no node is mistaken for it.
func ownClaims(userKey string) *jwt.UserClaims {
	c := jwt.NewUserClaims(userKey)
	c.Name = OwnUser
	c.AllowedConnectionTypes.Add(jwt.ConnectionTypeInProcess)
	return c
}

// OwnToken makes a key for the process that owns the server, as long as it lives, and its
// token in an account.
func (a *Authority) OwnToken(account string) (token string, sign func(nonce []byte) ([]byte, error), err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return "", nil, fmt.Errorf("make a bus key: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return "", nil, fmt.Errorf("make a bus key: %w", err)
	}
	token, err = a.Issue(account, ownClaims(public))
	return token, pair.Sign, err
}

// WorkerToken is what makes the holder of a user key a worker.
func (a *Authority) WorkerToken(id, user string) (string, error) {
	return a.Issue(AccountLocal, workerClaims(id, user))
}

// LinkToken is what lets the holder of a user key open the link of a cluster.
func (a *Authority) LinkToken(cluster, user string) (string, error) {
	return a.Issue(ClusterAccount(cluster), linkClaims(cluster, user))
}

// PluginToken is what lets the holder of a user key be asked as a plugin.
func (a *Authority) PluginToken(name, user string) (string, error) {
	return a.Issue(AccountLocal, pluginClaims(name, user))
}

// TokenPermissions reads what a user token allows, so that a refusal can be
// told to the caller at once and not only by the server later.
func TokenPermissions(token string) (bus.Permissions, error) {
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return bus.Permissions{}, fmt.Errorf("bus token is not readable: %w", err)
	}
	p := bus.Everything()
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

// TokenName is the name in the token of a connection; "" if it is not readable. Whether the
// token is signed by whom we trust the server checks, for every connection: here that would be
// done again, for a tenth of a millisecond each.
func TokenName(token string) string {
	_, rest, _ := strings.Cut(token, ".")
	claims, _, signed := strings.Cut(rest, ".")
	if !signed {
		return ""
	}
	data, err := base64.RawURLEncoding.DecodeString(claims)
	if err != nil {
		return ""
	}
	var c struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(data, &c) != nil {
		return ""
	}
	return c.Name
}
