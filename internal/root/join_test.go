package root

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// newJoin starts a root, and returns the request of a cluster that wants to join it.
func newJoin(t *testing.T) (*Root, rpc.JoinRequest) {
	t.Helper()
	r, err := Start(t.Context(), Options{Dir: t.TempDir(), APIAddr: "127.0.0.1:0", LinkAddr: "127.0.0.1:0",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	token, err := r.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	public, err := pki.EnsureClusterKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := enroll.Key(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r, rpc.JoinRequest{V: wire.Version, Token: token, Name: "edge", PublicKey: public, NatsKey: key.Public()}
}

// What people say of a cluster while it joins again is not lost, in memory and in the store:
// the record of before is read when the new one is stored.
func TestACordonWhileAClusterJoinsAgain(t *testing.T) {
	r, q := newJoin(t)
	if _, err := r.http.Join(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	joined := r.M.Clusters["edge"].Joined
	link := r.LinkTo
	r.LinkTo = func(name string) (bus.Conn, error) {
		_, err := r.http.CordonCluster(t.Context(), name, rpc.CordonRequest{Reason: "new disks"})
		if err != nil {
			t.Error(err)
		}
		return link(name)
	}
	if _, err := r.http.Join(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	stored := state.ClusterTable.Rows(r.M.DB)["edge"]
	for what, rec := range map[string]*state.ClusterRecord{"known": &r.M.Clusters["edge"].ClusterRecord, "stored": stored} {
		if rec.Cordon == nil || !rec.Joined.Equal(joined) {
			t.Errorf("what is %s: %+v, joined at %s before", what, rec, joined)
		}
	}
}

// Requests about a cluster come at any time while it joins and is cordoned: what they read is
// read under the lock. The race detector says so where not.
func TestTokensWhileAClusterChanges(t *testing.T) {
	r, q := newJoin(t)
	b := r.http
	if _, err := b.Join(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for range 20 {
			if _, err := b.CordonCluster(t.Context(), "edge", rpc.CordonRequest{}); err != nil {
				t.Error(err)
			}
			if err := b.UncordonCluster(t.Context(), "edge"); err != nil {
				t.Error(err)
			}
		}
	})
	all.Go(func() {
		for range 20 {
			if _, err := r.NewClusterToken(t.Context(), "edge"); err == nil {
				t.Error("a token for a name that is taken")
			}
		}
	})
	all.Go(func() {
		for range 20 {
			if _, err := b.Join(t.Context(), q); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
}

// A join that failed after the cluster was noted is made again by the cluster; then it is
// listened to, as after one that went well.
func TestAJoinThatFailedHalfWay(t *testing.T) {
	r, q := newJoin(t)
	link, asked := r.LinkTo, 0
	r.LinkTo = func(name string) (bus.Conn, error) {
		if asked++; asked == 2 {
			return nil, errors.New("too much to do")
		}
		return link(name)
	}
	if _, err := r.http.Join(t.Context(), q); err == nil {
		t.Fatal("it joined")
	}
	if _, err := r.http.Join(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	core.Do(r.Core, func(*state.Model) {
		if _, ok := r.Served["edge"]; !ok {
			t.Error("nobody listens to it")
		}
	})
}
