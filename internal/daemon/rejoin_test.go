package daemon

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster whose key was revoked goes on; with a token it is what it was, with
// another key, and its workers follow by themselves.
func TestARevokedClusterJoinsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	if os.Getenv("VERGE_TEST_LOG") != "" {
		s.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s.startRoot()
	defer s.root.Close()
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	defer func() { s.cluster.Close() }()
	if token, err = s.cluster.NewWorkerToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := s.startWorker(token)
	defer func() { _ = stop() }()
	s.eventually("all are there", s.connected)
	before, err := os.ReadFile(s.path("w1", engineapi.IdentityDir, "identity.pem"))
	if err != nil {
		t.Fatal(err)
	}
	client := s.client("root")
	var p *wire.Problem
	if _, err := s.root.NewClusterToken(t.Context(), "edge"); !errors.As(err, &p) || p.Code != "name-taken" {
		t.Errorf("a second cluster of the name: %v", err)
	}
	if err := client.Clusters.Revoke(t.Context(), "edge"); err != nil {
		t.Fatal(err)
	}
	s.eventually("the cluster is told", func() error {
		_, err := os.Stat(s.path("edge", "refused.json"))
		return err
	})
	s.cluster.Close()
	if token, err = s.root.NewClusterToken(t.Context(), "edge"); err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	s.eventually("the worker follows", func() error {
		now, err := os.ReadFile(s.path("w1", engineapi.IdentityDir, "identity.pem"))
		if err == nil && string(now) == string(before) {
			err = errors.New("it has its old certificate")
		}
		return err
	})
	s.eventually("all are there again", s.connected)
	if _, err := os.Stat(s.path("edge", "refused.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the note about the old key is left: %v", err)
	}
}

// A node that was taken out while it was off joins afresh in one start, with a token
// in a file; what has not been taken out keeps what it is.
func TestARemovedNodeJoinsAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	t.Parallel()
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	if os.Getenv("VERGE_TEST_LOG") != "" {
		s.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	file := func(token string, err error) string {
		t.Helper()
		path := s.path(fmt.Sprintf("%x.token", sha256.Sum256([]byte(token))))
		if err := errors.Join(err, os.WriteFile(path, []byte(token), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hash := func(parts ...string) string {
		t.Helper()
		data, err := os.ReadFile(s.path(parts...))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sha256.Sum256(data))
	}
	s.startRoot()
	defer func() { s.root.Close() }()
	s.tokenFile = file(s.root.NewClusterToken(t.Context(), "edge"))
	s.startCluster("")
	defer func() { s.cluster.Close() }()
	s.tokenFile = file(s.cluster.NewWorkerToken(t.Context()))
	stop := s.startWorker("")
	defer func() { _ = stop() }()
	s.eventually("all are there", s.connected)
	end := func() {
		t.Helper()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		s.away()
	}

	// Another token changes nothing about a worker that is known.
	end()
	key := hash("w1", engineapi.IdentityDir, "key.pem")
	s.tokenFile = file(s.cluster.NewWorkerToken(t.Context()))
	stop = s.startWorker("")
	s.eventually("it is back", s.connected)
	end()
	if hash("w1", engineapi.IdentityDir, "key.pem") != key {
		t.Error("a worker that is known has made another key")
	}

	// One that was removed.
	if err := s.client("edge").Workers.Remove(t.Context(), "edge", "w1", true); err != nil {
		t.Fatal(err)
	}
	s.tokenFile = file(s.cluster.NewWorkerToken(t.Context()))
	stop = s.startWorker("")
	s.eventually("it has joined again", s.connected)
	if hash("w1", engineapi.IdentityDir, "key.pem") == key {
		t.Error("it goes by the key that was taken out")
	}

	// A cluster that was removed: its worker follows by itself.
	s.cluster.Close()
	if err := s.client("root").Clusters.Remove(t.Context(), "edge", true); err != nil {
		t.Fatal(err)
	}
	s.tokenFile = file(s.root.NewClusterToken(t.Context(), "edge"))
	s.startCluster("")
	s.eventually("the cluster has joined again, with its worker", s.connected)
}
