package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/agent"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/cluster"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/root"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ages is a clock that all nodes of a test share, some years ahead.
type ages struct{ ahead atomic.Int64 }

func (a *ages) clock(dir string) *pki.Clock {
	start := time.Now()
	return pki.NewClock(dir,
		func() time.Time { return time.Now().Round(0).Add(time.Duration(a.ahead.Load())) },
		func() time.Duration { return time.Since(start) + time.Duration(a.ahead.Load()) })
}

// idleEngine is an engine that has nothing to do.
type idleEngine struct {
	mu   sync.Mutex
	have wire.Rev
}

func (h *idleEngine) Apply(_ context.Context, o engineapi.EngineOrders) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.have = o.Have
	return nil
}

func (h *idleEngine) Change(_ context.Context, c engineapi.EngineChanges) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.have = c.To
	return nil
}

func (h *idleEngine) State(ctx context.Context, _ uint64, wait time.Duration) (engineapi.EngineState, error) {
	if wait > 0 {
		<-ctx.Done()
		return engineapi.EngineState{}, ctx.Err()
	}
	return engineapi.EngineState{V: wire.Version, Engine: "idle", Seq: 1,
		Info: engineapi.EngineInfo{Runtimes: []string{"process"}}}, nil
}

func (h *idleEngine) Demand(ctx context.Context, _ time.Duration) (wire.Demand, error) {
	<-ctx.Done()
	return wire.Demand{}, ctx.Err()
}

func (h *idleEngine) Logs(context.Context, string, rpc.LogAsk) (rpc.LogChunk, error) {
	return rpc.LogChunk{}, errors.New("none")
}
func (h *idleEngine) Entries(context.Context) ([]rpc.EntryView, error) { return nil, nil }
func (h *idleEngine) Metrics(context.Context) ([]byte, error)          { return nil, errors.New("none") }
func (h *idleEngine) Route(context.Context, string) (rpc.RouteReport, error) {
	return rpc.RouteReport{}, nil
}
func (h *idleEngine) Net(context.Context) (rpc.NetReport, error) { return rpc.NetReport{}, nil }
func (h *idleEngine) Measure(context.Context, rpc.MeasureAsk) (rpc.Measured, error) {
	return rpc.Measured{}, errors.New("none")
}
func (h *idleEngine) Top(context.Context) (rpc.WorkerTop, error)         { return rpc.WorkerTop{}, nil }
func (h *idleEngine) Volumes(context.Context) ([]rpc.VolumeView, error)  { return nil, nil }
func (h *idleEngine) RemoveVolume(context.Context, wire.VolumeRef) error { return errors.New("none") }
func (h *idleEngine) Exec(context.Context, rpc.ExecAsk) (rpc.ExecAnswer, error) {
	return rpc.ExecAnswer{}, errors.New("none")
}

// tiers are a root, a cluster and a worker in this process, over real sockets.
type tiers struct {
	t       *testing.T
	dir     string
	now     ages
	root    *root.Root
	cluster *cluster.Cluster
	log     *slog.Logger
	api     string // of the cluster; the same after a restart, as it would be
	details bool   // the cluster shares them
	link    string // as api
	// tokenFile is given to what is started without a token.
	tokenFile string
}

// token is how a token is given: its file, or standard input.
func (s *tiers) token(text string) (file string, in io.Reader) {
	if text == "" && s.tokenFile != "" {
		return s.tokenFile, nil
	}
	return "-", strings.NewReader(text)
}

func (s *tiers) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// client is the administrator's of the root or cluster in dir, until the test ends.
func (s *tiers) client(dir string) *client.Client {
	s.t.Helper()
	entry, err := client.ReadContext(s.path(dir, "context.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := client.New(entry)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func (s *tiers) startRoot() {
	s.t.Helper()
	r, err := root.Start(s.t.Context(), root.Options{
		Dir: s.path("root"), APIAddr: loopback, LinkAddr: loopback, Log: s.log, Clock: s.now.clock(s.path("root")),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.root = r
}

// lasting is a free address that a role can have again after it was stopped: nobody
// who connects to somewhere is given such a port meanwhile, as those of ":0" are.
func lasting(t *testing.T) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000)))
		if err != nil {
			continue
		}
		defer l.Close()
		return l.Addr().String()
	}
	t.Fatal("there is no free port from 20000 to 29999")
	return ""
}

func (s *tiers) startCluster(token string) {
	s.t.Helper()
	if s.api == "" {
		s.api, s.link = lasting(s.t), lasting(s.t)
	}
	file, in := s.token(token)
	c, err := cluster.Start(s.t.Context(), cluster.Options{
		Dir: s.path("edge"), Name: "edge", TokenFile: file, Stdin: in, Root: s.root.Link(),
		LinkAddr: s.link, APIAddr: s.api, HeartbeatInterval: time.Second, Details: s.details, Log: s.log,
		Clock: s.now.clock(s.path("edge")),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.cluster, s.api, s.link = c, c.Addr(), c.Link()[0]
}

// startWorker returns what ends it and what it returned.
func (s *tiers) startWorker(token string) (stop func() error) {
	s.t.Helper()
	cancel, ended := s.runWorker(token)
	return func() error {
		cancel()
		return ended()
	}
}

// runWorker returns what ends it, and what waits for its end and says what it
// returned.
func (s *tiers) runWorker(token string) (cancel func(), ended func() error) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	file, in := s.token(token)
	go func() {
		done <- agent.Run(ctx, agent.Options{
			Dir: s.path("w1"), Name: "w1", TokenFile: file, Stdin: in, Cluster: s.cluster.Link(), Log: s.log,
			Engine: func(engineapi.EngineConfig) (engineclient.Client, error) { return &idleEngine{}, nil },
			Clock:  s.now.clock(s.path("w1", engineapi.IdentityDir)),
		})
	}()
	return cancel, sync.OnceValue(func() error { return <-done })
}

// away waits until the root knows that the worker has gone, so that it can be seen
// to come back.
func (s *tiers) away() {
	s.t.Helper()
	s.eventually("the worker has gone", func() error {
		if n := s.root.Ready()["edge"]; n != 0 {
			return fmt.Errorf("%d workers are ready", n)
		}
		return nil
	})
}

func (s *tiers) eventually(what string, check func() error) {
	s.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %v", what, err)
		}
		<-tick.C
	}
}

// fresh says whether everything that is certified is in the first half of its
// life.
func (s *tiers) fresh() error {
	now := time.Now().Add(time.Duration(s.now.ahead.Load()))
	for _, dir := range []string{s.path("root"), s.path("edge"), s.path("w1", engineapi.IdentityDir)} {
		id, err := pki.LoadIdentity(dir)
		if err != nil {
			return err
		}
		if !now.Before(id.RenewAt()) {
			return fmt.Errorf("%s is to be renewed since %s, it is %s", id.Subject(), id.RenewAt(), now)
		}
	}
	ca, err := pki.OpenClusterAuthority(s.path("edge"))
	if err != nil {
		return err
	}
	if !now.Before(ca.RenewAt()) {
		return fmt.Errorf("the cluster's authority is to be renewed since %s, it is %s", ca.RenewAt(), now)
	}
	for _, dir := range []string{"root", "edge"} {
		e, err := client.ReadContext(s.path(dir, "context.yaml"))
		if err != nil {
			return err
		}
		at, err := pki.RenewAtOf(e.Cert)
		if err != nil || !now.Before(at) {
			return fmt.Errorf("the context of %s is to be renewed since %s, it is %s (%w)", dir, at, now, err)
		}
	}
	return nil
}

func (s *tiers) connected() error {
	if n := s.root.Ready()["edge"]; n != 1 {
		return fmt.Errorf("%d workers are ready", n)
	}
	return nil
}

// Years pass: everything is renewed while it runs, and nobody has to join again;
// a worker that was in a drawer for nearly its last 180 days comes back; one that
// was there for longer is told to join again.
func TestYearsPass(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const day = 24 * time.Hour
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	if os.Getenv("VERGE_TEST_LOG") != "" {
		s.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s.startRoot()
	defer func() { s.root.Close() }()
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

	// Beyond half of the life of the cluster's authority.
	for n := range 5 {
		s.now.ahead.Add(int64(200 * day))
		s.eventually(fmt.Sprintf("everything is renewed after %d days", 200*(n+1)), s.fresh)
		if err := s.connected(); err != nil {
			t.Error(err)
		}
	}
	// New connections are made with what there is now.
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s.away()
	s.cluster.Close()
	s.startCluster("")
	stop = s.startWorker("")
	s.eventually("all are there with what was renewed", s.connected)

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s.away()
	s.now.ahead.Add(int64((365 + 170) * day))
	s.eventually("the others go on", func() error {
		if err := s.fresh(); err != nil && !strings.Contains(err.Error(), "worker/edge/w1") {
			return err
		}
		return nil
	})
	stop = s.startWorker("")
	s.eventually("the worker is back from its drawer", s.fresh)
	s.eventually("and works", s.connected)

	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s.away()
	s.now.ahead.Add(int64((365 + 190) * day))
	cancel, ended := s.runWorker("")
	defer func() { cancel(); _ = ended() }()
	s.eventually("the worker is told that it was away for too long", func() error {
		b, err := os.ReadFile(s.path("w1", engineapi.IdentityDir, "refused.json"))
		if err == nil && !strings.Contains(string(b), rpc.CodeTooLate) {
			err = errors.New(string(b))
		}
		return err
	})
	// It ends by itself: what would end it here would win over what it was told.
	var p *wire.Problem
	if err := ended(); !errors.As(err, &p) || p.Code != rpc.CodeTooLate ||
		!strings.Contains(p.Remedy, "verge token create --worker") {
		t.Errorf("it ended with %v", err)
	}
	// With a token it is what it was.
	if token, err = s.cluster.NewWorkerToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop = s.startWorker(token)
	s.eventually("the worker has joined again", s.fresh)
	s.eventually("and works again", s.connected)
}

// Only who is meant gets in to a link, whatever certificate of the root is shown.
func TestLinksAdmitTheirOwnOnly(t *testing.T) {
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	s.startRoot()
	defer s.root.Close()
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	defer s.cluster.Close()
	if token, err = s.cluster.NewWorkerToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := s.startWorker(token)
	defer func() { _ = stop() }()
	s.eventually("all are there", s.connected)
	worker, err := tls.LoadX509KeyPair(s.path("w1", engineapi.IdentityDir, "identity.pem"),
		s.path("w1", engineapi.IdentityDir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	node, err := tls.LoadX509KeyPair(s.path("edge", "identity.pem"), s.path("edge", "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	op, err := client.ReadContext(s.path("edge", "context.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	operator, err := tls.X509KeyPair([]byte(op.Cert), []byte(op.Key))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(op.CA))
	for what, c := range map[string]struct {
		addr, name string
		pair       tls.Certificate
		in         bool
	}{
		"a worker at its cluster":      {s.cluster.Link()[0], pki.ClusterName("edge"), worker, true},
		"a cluster at its own link":    {s.cluster.Link()[0], pki.ClusterName("edge"), node, false},
		"an operator at its cluster":   {s.cluster.Link()[0], pki.ClusterName("edge"), operator, false},
		"a cluster at the root":        {s.root.Link()[0], pki.RootName, node, true},
		"a worker at the root":         {s.root.Link()[0], pki.RootName, worker, false},
		"an operator at the root":      {s.root.Link()[0], pki.RootName, operator, false},
		"a worker that asks by a name": {s.cluster.Link()[0], pki.RootName, worker, false},
	} {
		conn, err := tls.Dial("tcp", c.addr,
			&tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ServerName: c.name,
				Certificates: []tls.Certificate{c.pair}})
		if err == nil {
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			_, err = conn.Read(make([]byte, 1)) // the server speaks first
			_ = conn.Close()
		}
		if c.in != (err == nil) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Who asks at the HTTP interface with a certificate that will do, keeps it: nothing
// is signed or stored because a link was away for a while. Who holds something else
// is certified again.
func TestWhatWillDoIsKept(t *testing.T) {
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	s.startRoot()
	defer s.root.Close()
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	defer s.cluster.Close()
	if token, err = s.cluster.NewWorkerToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop := s.startWorker(token)
	defer func() { _ = stop() }()
	s.eventually("all are there", s.connected)
	w1 := s.path("w1", engineapi.IdentityDir)
	worker, err := pki.LoadIdentity(w1)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.OpenClusterAuthority(s.path("edge"))
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		addr, server string
		req          rpc.RenewRequest
		keyOf        string
		prove        func(dir, text string) ([]byte, error)
		holds        string
	}{
		"a worker": {
			s.cluster.Addr(), pki.ClusterName("edge"),
			rpc.RenewRequest{Name: "w1", PublicKey: worker.Leaf().RawSubjectPublicKeyInfo}, w1, pki.Prove,
			enroll.HeldID(worker.Leaf().NotAfter, worker.TrustID(), worker.Issuers()),
		},
		"a cluster": {
			s.root.Addr(), pki.RootName, rpc.RenewRequest{Name: "edge", PublicKey: ca.PublicKey()}, s.path("edge"),
			pki.ProveCluster,
			enroll.HeldID(ca.Cert().NotAfter, ca.TrustID()),
		},
	} {
		key, err := enroll.Key(c.keyOf)
		if err != nil {
			t.Fatal(err)
		}
		c.req.V, c.req.NatsKey = wire.Version, key.Public()
		ask := func(holds string) rpc.JoinReply {
			t.Helper()
			reply, err := nodeclient.RenewAt(t.Context(), []string{c.addr}, worker.ClientTLS(c.server),
				func(challenge string) (rpc.RenewRequest, error) {
					req := c.req
					req.Challenge, req.Holds = challenge, holds
					var err error
					req.Signature, err = c.prove(c.keyOf, enroll.ProofText(c.server, req))
					return req, err
				})
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			return reply
		}
		for range 2 {
			if got := ask(c.holds); got.Chain != "" || got.BusJWT == "" || len(got.Link) == 0 || got.CA == "" {
				t.Errorf("%s that holds what it needs is answered %+v", what, got)
			}
		}
		if got := ask("another"); got.Chain == "" {
			t.Errorf("%s that holds something else is answered %+v", what, got)
		}
	}
}
