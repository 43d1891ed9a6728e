package busserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/credentials"
)

func refusals(t *testing.T, ns *server.Server) int {
	z, err := ns.Connz(&server.ConnzOptions{State: server.ConnClosed})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range z.Conns {
		if strings.Contains(c.Reason, "uthentication") || strings.Contains(c.Reason, "evoked") {
			n++
		}
	}
	return n
}

// LeafSubscriptions are the subjects that clusters have told the root.
func (r *RootServer) LeafSubscriptions(t *testing.T) []string {
	t.Helper()
	z, err := r.ns.Leafz(&server.LeafzOptions{Subscriptions: true})
	if err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, l := range z.Leafs {
		subjects = append(subjects, l.Subs...)
	}
	slices.Sort(subjects)
	return subjects
}

// Refusals counts connections that were refused for their credentials.
func (r *RootServer) Refusals(t *testing.T) int {
	t.Helper()
	return refusals(t, r.ns)
}

// IssueFor makes a token of the account LOCAL with other permissions than a
// worker has.
func (c *ClusterServer) IssueFor(name string, key credentials.Key, allow bus.Permissions) (string, error) {
	claims := jwt.NewUserClaims(key.Public())
	claims.Name = name
	claims.Pub.Allow.Add(allow.Publish...)
	claims.Sub.Allow.Add(allow.Subscribe...)
	claims.Sub.Allow.Add(credentials.InboxPrefix + name + ".>")
	claims.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
	return c.auth.Issue(credentials.AccountLocal, claims)
}
