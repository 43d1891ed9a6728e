package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/agent"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A worker leaves by its own key, and by no other; it comes back with a new token.
func TestAWorkerLeaves(t *testing.T) {
	t.Parallel()
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	s.startRoot()
	defer func() { s.root.Close() }()
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	defer func() { s.cluster.Close() }()
	start := func() (stop func() error) {
		t.Helper()
		token, err := s.cluster.NewWorkerToken(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stop = s.startWorker(token)
		s.eventually("it is there", s.connected)
		return stop
	}
	stop := start()
	c := s.client("edge")
	workers := func() int {
		t.Helper()
		list, err := c.Workers.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}

	if _, err := agent.Leave(t.Context(), s.path("w1"), true); code(err) != "in-use" {
		t.Errorf("it leaves while it works: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s.away()
	id := s.path("w1", engineapi.IdentityDir)
	joined, err := enroll.Joined(id)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := pki.LoadIdentity(id)
	if err != nil {
		t.Fatal(err)
	}
	key, err := enroll.Key(id)
	if err != nil {
		t.Fatal(err)
	}
	good := rpc.LeaveRequest{Force: true,
		RenewRequest: rpc.RenewRequest{V: wire.Version, Name: "w1", PublicKey: mine.Leaf().RawSubjectPublicKeyInfo,
			NatsKey: key.Public()}}
	other := t.TempDir()
	theirs, err := pki.EnsureKey(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir  string // of the key that signs
		text func(r rpc.LeaveRequest) string
		as   func(r *rpc.LeaveRequest)
		want string
	}{
		"another key signs": {dir: other, want: "bad-proof"},
		"another key for the name": {dir: other, as: func(r *rpc.LeaveRequest) { r.PublicKey = theirs },
			want: "another-key"},
		"the key for another name": {dir: id, as: func(r *rpc.LeaveRequest) { r.Name = "w2" },
			want: rpc.CodeUnknown},
		"what was signed to renew": {dir: id,
			text: func(r rpc.LeaveRequest) string { return enroll.ProofText(joined.LinkName, r.RenewRequest) },
			want: "bad-proof"},
		"what was signed for another": {dir: id,
			text: func(r rpc.LeaveRequest) string { return enroll.LeaveText("elsewhere", r) }, want: "bad-proof"},
		"signed without force": {dir: id, text: func(r rpc.LeaveRequest) string {
			r.Force = false
			return enroll.LeaveText(joined.LinkName, r)
		}, want: "bad-proof"},
	} {
		err := nodeclient.LeaveAt(t.Context(), joined.API, mine.ClientTLS(joined.LinkName),
			func(challenge string) (rpc.LeaveRequest, error) {
				r := good
				if c.as != nil {
					c.as(&r)
				}
				r.Challenge = challenge
				text := enroll.LeaveText(joined.LinkName, r)
				if c.text != nil {
					text = c.text(r)
				}
				var err error
				r.Signature, err = pki.Prove(c.dir, text)
				return r, err
			})
		if code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if workers() != 1 {
		t.Fatal("somebody else took it out")
	}

	// Nobody answers: nothing is changed.
	s.cluster.Close()
	short, cancel := context.WithCancel(t.Context())
	if _, err := agent.Leave(short, s.path("w1"), false); code(err) != "no-cluster" ||
		!strings.Contains(fmt.Sprint(err), "verge remove worker/edge/w1") {
		t.Errorf("without its cluster: %v", err)
	}
	cancel()
	s.startCluster("")
	if cluster, err := agent.Leave(t.Context(), s.path("w1"), false); err != nil || cluster != "edge" {
		t.Fatalf("%q, %v", cluster, err)
	}
	if _, err := os.Stat(id); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its identity is still there: %v", err)
	}
	if workers() != 0 {
		t.Error("its cluster has kept it")
	}
	stop = start()
	if workers() != 1 {
		t.Error("it is not back")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// code of a problem, or what else is wrong.
func code(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return fmt.Sprint(err)
}
