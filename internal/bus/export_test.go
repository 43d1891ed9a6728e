package bus

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
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

// SetSlack makes the log of a store be cleaned earlier.
func SetSlack(s Store, slack int) { s.(*store).slack = slack }

// SetPatience sets how long a store waits for an acknowledgement.
func SetPatience(s Store, d time.Duration) { s.(*store).patience = d }

// SetFree makes a store believe in another free space.
func SetFree(s Store, n uint64) {
	s.(*store).free = func(string) (uint64, error) { return n, nil }
}

// LogSize is what the log of a store takes, and what it needs.
func LogSize(s Store) (log, live int) {
	own := s.(*store)
	return own.logBytes, own.m.size()
}

// FirstRecord is the number of the oldest message of the log.
func FirstRecord(s Store) uint64 { return s.(*store).records[0].seq }

// StopLog ends JetStream under a running server.
func (r *RootServer) StopLog(t *testing.T) {
	t.Helper()
	if err := r.ns.ShutdownJetStream(); err != nil {
		t.Fatal(err)
	}
}

// Rest does what the store does when it has not been used for a while.
func Rest(s Store) { s.(*store).js.rest.rest() }

// Resting reports whether the store has given its clock back.
func Resting(s Store) bool {
	r := s.(*store).js.rest
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resting
}

// SetBlobSpace makes the disk of the blobs have n bytes free.
func (r *RootServer) SetBlobSpace(n uint64) {
	r.blobs.free = func(string) (uint64, error) { return n, nil }
}

// BlobFree is what blobs leave free.
const BlobFree = blobFree + minFree

// LosePiece drops a piece of a blob.
func (r *RootServer) LosePiece(ctx context.Context, id string, n int) error {
	js, err := r.blobs.ready(ctx, false)
	if err != nil {
		return err
	}
	var reply server.JSApiStreamPurgeResponse
	return js.call(ctx, apiBlobPurge, server.JSApiStreamPurgeRequest{Subject: pieceSubject(id, n)}, &reply)
}

// HasBlobStream says whether there is a stream of blobs.
func (r *RootServer) HasBlobStream() bool { return r.blobs.there }
