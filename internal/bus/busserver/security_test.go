package busserver_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/credentials"
)

// raw is a client of its own, without the courtesies of busconn.Dial.
type raw struct {
	*nats.Conn
	mu     sync.Mutex
	errors []error
}

func rawOptions(config *tls.Config, more ...nats.Option) []nats.Option {
	return append([]nats.Option{
		nats.Secure(config), nats.TLSHandshakeFirst(), nats.NoReconnect(), nats.Timeout(10 * time.Second),
	}, more...)
}

// rawClient connects with a worker's credentials.
func rawClient(t *testing.T, a *ca, c *busserver.ClusterServer, token string, key credentials.Key) (*raw, error) {
	t.Helper()
	r := &raw{}
	nc, err := nats.Connect("nats://"+c.Addr(), rawOptions(a.client(userOf(t, token), "cluster.test"),
		nats.UserJWT(func() (string, error) { return token, nil }, key.Sign),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errors = append(r.errors, err)
		}))...)
	if err != nil {
		return nil, err
	}
	r.Conn = nc
	t.Cleanup(nc.Close)
	return r, nil
}

// userOf is the name in a token.
func userOf(t *testing.T, token string) string {
	t.Helper()
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	return claims.Name
}

// refused runs try and says whether the server reported a violation of
// permissions for it.
func (r *raw) refused(t *testing.T, try func() error) bool {
	t.Helper()
	r.mu.Lock()
	r.errors = nil
	r.mu.Unlock()
	if err := try(); err != nil {
		t.Fatalf("raw client: %v", err)
	}
	if err := r.FlushTimeout(patience); err != nil {
		t.Fatalf("raw client: %v", err)
	}
	// The refusal came before the answer to the flush, its callback may not have
	// run yet: LastError is set by then.
	return errors.Is(r.LastError(), nats.ErrPermissionViolation) && r.takeError(t)
}

// takeError waits for the callback and forgets the error.
func (r *raw) takeError(t *testing.T) bool {
	t.Helper()
	eventually(t, "error callback", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.errors) > 0
	})
	return true
}

func TestWorkerCannotLeaveItsSubjects(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	root := startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	edge := startCluster(t, a, "edge", t.TempDir(), upstream(t, a, root, "edge"))
	waitUp(t, edge.Up(), true)
	if _, err := edge.Store().Put(t.Context(), "secret.b", []byte("of b")); err != nil {
		t.Fatal(err)
	}
	// B is a worker that is there, with an instance to ask.
	b, _, _ := joinWorker(t, a, edge, "b")
	answer(t, b, "o.b.ask", "b")
	key := newKey(t)
	token, err := edge.AddWorker("a", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	// What reaches the cluster's own connection, whoever says it is on it.
	heard := make(chan string, 1000)
	if _, err := edge.Local().Subscribe(">", func(_ context.Context, m bus.Msg) { heard <- m.Subject }); err != nil {
		t.Fatal(err)
	}

	forbidden := []string{
		"w.b.report", "w.b", "w", "w.a", "o.b.x", "o.b.ask", "o.a.x", "o.a.ask",
		"_INBOX_b.x", "_INBOX_a.x", "_INBOX.x", "_INBOX.x.y", "x", "report", "down",
		"s.secret.b", "m.timeline", "log", "STORE",
		"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.STORE",
		"$JS.API.STREAM.DELETE.STORE", "$JS.API.STREAM.PURGE.STORE", "$JS.API.STREAM.MSG.GET.STORE",
		"$JS.API.DIRECT.GET.STORE", "$JS.API.DIRECT.GET.STORE.s.secret.b", "$JS.API.CONSUMER.CREATE.STORE",
		"$JS.edge.API.INFO", "$JS.edge.API.STREAM.LIST", "$JS.ACK.STORE.x",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.CLAIMS.UPDATE",
		"$SYS.ACCOUNT.x.CONNECT", "$KV.x.y", "$O.x.y", "$G.x", "$LDS.x", "$GR.x", "_R_.x",
	}
	for _, s := range forbidden {
		// A connection per subject: the server mutes repeated errors of one.
		r, err := rawClient(t, a, edge, token, key)
		if err != nil {
			t.Fatal(err)
		}
		if !r.refused(t, func() error { return r.Publish(s, []byte("x")) }) {
			t.Errorf("publish to %s was not refused", s)
		}
		r.Close()
	}
	for _, s := range []string{
		">", "*", "*.>", "*.*.>", "w.>", "w.a.>", "w.b.>", "w.*.>", "o.>", "o.*.>", "o.*.ask", "o.b.>", "o.b.ask", "o.a",
		"_INBOX.>", "_INBOX_b.>", "_INBOX_*.>", "_INBOX_a", "s.>", "m.>", "log", "s.secret.b",
		"$JS.>", "$JS.API.>", "$JS.EVENT.>", "$JS.ACK.>", "$SYS.>", "$SYS.ACCOUNT.>", "$SYS.SERVER.>", "$SYS.REQ.>", "$KV.>", "$LDS.>", "_R_.>",
	} {
		r, err := rawClient(t, a, edge, token, key)
		if err != nil {
			t.Fatal(err)
		}
		sub := func() error { _, err := r.SubscribeSync(s); return err }
		if !r.refused(t, sub) {
			t.Errorf("subscribe to %s was not refused", s)
		}
		queue := func() error { _, err := r.QueueSubscribeSync(s, "q"); return err }
		if !r.refused(t, queue) {
			t.Errorf("queue subscribe to %s was not refused", s)
		}
		r.Close()
	}

	// What it may do works, and is all that anyone has heard.
	r, err := rawClient(t, a, edge, token, key)
	if err != nil {
		t.Fatal(err)
	}
	if r.refused(t, func() error { return r.Publish("w.a.report", nil) }) {
		t.Fatal("its own subject was refused")
	}
	select {
	case s := <-heard:
		if s != "w.a.report" {
			t.Fatalf("the cluster heard %s", s)
		}
	case <-time.After(patience):
		t.Fatal("the cluster heard nothing")
	}
	own, err := r.SubscribeSync("o.a.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"o.b.x", "w.b.x", "_INBOX_b.x", "o.a.x"} {
		if err := edge.Local().Publish(s, nil); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := own.NextMsg(patience); err != nil || m.Subject != "o.a.x" {
		t.Fatalf("first message to a: %v, %v", m, err)
	}
}

func TestWorkerAnswersOnlyWhatItWasAsked(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	key := newKey(t)
	token, err := edge.AddWorker("a", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	r, err := rawClient(t, a, edge, token, key)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan *nats.Msg, 1)
	if _, err := r.Subscribe("o.a.ask", func(m *nats.Msg) { asked <- m }); err != nil {
		t.Fatal(err)
	}
	if err := r.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		s, _ := request(t, edge.Local(), "o.a.ask", "q")
		got <- s
	}()
	m := <-asked
	if r.refused(t, func() error { return r.Publish(m.Reply, []byte("one")) }) {
		t.Fatal("the answer was refused")
	}
	if s := <-got; s != "one" {
		t.Fatalf("answer %q", s)
	}
	if !r.refused(t, func() error { return r.Publish(m.Reply, []byte("two")) }) {
		t.Fatal("a second answer was not refused")
	}
}

func TestWorkerLimits(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	key := newKey(t)
	token, err := edge.AddWorker("a", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	r, err := rawClient(t, a, edge, token, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Publish("w.a.x", make([]byte, 1<<20)); err != nil {
		t.Fatalf("1 MiB: %v", err)
	}
	if err := r.FlushTimeout(patience); err != nil {
		t.Fatalf("1 MiB: %v", err)
	}
	for i := range 40 {
		if _, err := r.SubscribeSync(fmt.Sprintf("o.a.%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.FlushTimeout(patience); err == nil && r.LastError() == nil {
		t.Fatal("40 subscriptions were accepted")
	}
	large, err := rawClient(t, a, edge, token, key)
	if err != nil {
		t.Fatal(err)
	}
	// The library may refuse it itself, by what the server has told it.
	err = large.Publish("w.a.x", make([]byte, 2<<20))
	if err == nil {
		err = large.FlushTimeout(patience)
	}
	if err == nil {
		t.Fatal("2 MiB were accepted")
	}
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	a, otherCA := newCA(t), newCA(t)
	root := startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	fog := startCluster(t, a, "fog", t.TempDir(), nil)
	key, otherKey := newKey(t), newKey(t)
	token, err := edge.AddWorker("w1", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	good := a.client("w1", "cluster.test")
	credentials := func(token string, sign nats.SignatureHandler) nats.Option {
		return nats.UserJWT(func() (string, error) { return token, nil }, sign)
	}
	nobody := &tls.Config{RootCAs: a.pool, ServerName: "cluster.test"}
	foreign := &tls.Config{RootCAs: a.pool, ServerName: "cluster.test", Certificates: []tls.Certificate{otherCA.leaf("w1")}}
	old := good.Clone()
	old.MaxVersion = tls.VersionTLS12
	link := upstream(t, a, root, "edge")
	for name, opts := range map[string][]nats.Option{
		"no certificate":         rawOptions(nobody, credentials(token, key.Sign)),
		"certificate of another": rawOptions(foreign, credentials(token, key.Sign)),
		"TLS 1.2":                rawOptions(old, credentials(token, key.Sign)),
		"no token":               rawOptions(good),
		"password":               rawOptions(good, nats.UserInfo("admin", "admin")),
		"bare key":               rawOptions(good, nats.Nkey(key.Public(), key.Sign)),
		"token without its key":  rawOptions(good, credentials(token, otherKey.Sign)),
		"token not signed by us": rawOptions(good, credentials(selfSigned(t, key), key.Sign)),
		"changed token":          rawOptions(good, credentials(changed(t, token, "w.w1.", "w.w2."), key.Sign)),
		"token of another":       rawOptions(good, credentials(mustAdd(t, fog, "w1", key), key.Sign)),
		"token of a link":        rawOptions(good, credentials(link.JWT(), link.Key.Sign)),
		"in clear":               {nats.NoReconnect(), nats.Timeout(3 * time.Second), credentials(token, key.Sign)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, err := nats.Connect("nats://"+edge.Addr(), opts...)
			if err == nil {
				nc.Close()
				t.Fatal("accepted")
			}
		})
	}
	t.Run("the right one", func(t *testing.T) {
		t.Parallel()
		if _, err := rawClient(t, a, edge, token, key); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("client at the link port", func(t *testing.T) {
		t.Parallel()
		config := a.client("edge", "root.test")
		nc, err := nats.Connect("nats://"+root.Addr(), rawOptions(config, credentials(link.JWT(), link.Key.Sign))...)
		if err == nil {
			nc.Close()
			t.Fatal("accepted")
		}
	})
}

func mustAdd(t *testing.T, c *busserver.ClusterServer, id string, key credentials.Key) string {
	t.Helper()
	token, err := c.AddWorker(id, key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// selfSigned is a token of an account that the forger made, with all rights.
func selfSigned(t *testing.T, key credentials.Key) string {
	t.Helper()
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.NewUserClaims(key.Public())
	claims.Name = "w1"
	token, err := claims.Encode(account)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// changed is the token with other permissions and the old signature.
func changed(t *testing.T, token, from, to string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	wider := strings.ReplaceAll(string(body), from, to)
	if wider == string(body) {
		t.Fatal("the token has no permissions to change")
	}
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(wider))
	return strings.Join(parts, ".")
}

// lineCounter counts the refusals that a server logs.
type lineCounter struct {
	slog.Handler
	n atomic.Int32
}

func (*lineCounter) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (c *lineCounter) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if text := strings.ToLower(a.Value.String()); strings.Contains(text, "tls") || strings.Contains(text, "authorization") || strings.Contains(text, "authentication") {
			c.n.Add(1)
		}
		return true
	})
	return nil
}

// Who tries for ever with a certificate that is refused does not fill the log.
func TestFailedHandshakesDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	a, other := newCA(t), newCA(t)
	lines := &lineCounter{}
	root, err := busserver.StartRoot(t.Context(), busserver.RootOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: a.server("root.test"), Peer: commonName, Log: slog.New(lines)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(root.Close)
	for range 50 {
		conf := other.client("cloud", "root.test")
		conf.InsecureSkipVerify, conf.MinVersion = true, tls.VersionTLS13
		conn, err := net.Dial("tcp", root.Addr())
		if err != nil {
			t.Fatal(err)
		}
		secure := tls.Client(conn, conf)
		if err := secure.Handshake(); err == nil {
			_, _ = secure.Read(make([]byte, 1)) // it is told so here
		}
		_ = conn.Close()
	}
	eventually(t, "what is logged", func() bool { return lines.n.Load() >= 10 })
	if n := lines.n.Load(); n > 12 {
		t.Errorf("%d lines", n)
	}
}

func TestLinkIsConfinedToItsAccount(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	root := startRoot(t, a, t.TempDir(), "127.0.0.1:0")
	if _, err := root.Store().Put(t.Context(), "secret", []byte("of the root")); err != nil {
		t.Fatal(err)
	}
	edge := startCluster(t, a, "edge", t.TempDir(), upstream(t, a, root, "edge"))
	fog := startCluster(t, a, "fog", t.TempDir(), upstream(t, a, root, "fog"))
	waitUp(t, edge.Up(), true)
	waitUp(t, fog.Up(), true)
	for _, c := range []*busserver.ClusterServer{edge, fog} {
		answer(t, c.Up(), "down", "cluster")
	}
	toEdge, err := root.Cluster("edge")
	if err != nil {
		t.Fatal(err)
	}
	toFog, err := root.Cluster("fog")
	if err != nil {
		t.Fatal(err)
	}
	answer(t, toFog, "for.fog", "root")
	eventually(t, "links", func() bool {
		_, e1 := request(t, toEdge, "down", "")
		_, e2 := request(t, toFog, "down", "")
		return e1 == nil && e2 == nil
	})

	// An operator owns its cluster's server: Up() is all that its credentials can
	// reach at the root. It listens to everything and asks for everything.
	heard := make(chan bus.Msg, 1000)
	if _, err := edge.Up().Subscribe(">", func(_ context.Context, m bus.Msg) { heard <- m }); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"for.fog", "s.secret", "log", "m.timeline",
		"$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.STORE", "$JS.API.DIRECT.GET.STORE", "$JS.API.STREAM.DELETE.STORE",
		"$JS.root.API.INFO", "$JS.root.API.STREAM.LIST", "$JS.root.API.STREAM.DELETE.STORE", "$JS.root.API.DIRECT.GET.STORE",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		got, err := edge.Up().Request(ctx, s, []byte("{}"))
		cancel()
		if err == nil {
			t.Errorf("%s was answered: %q", s, got)
		}
	}
	// The server's own answers about an account must not come from the root.
	for _, s := range []string{"$SYS.REQ.USER.INFO", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		got, err := edge.Up().Request(ctx, s, nil)
		cancel()
		if err == nil && strings.Contains(string(got), "verge-root") {
			t.Errorf("%s was answered by the root: %q", s, got)
		}
	}
	if err := toFog.Publish("private", []byte("to fog")); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Store().Put(t.Context(), "secret", []byte("again")); err != nil {
		t.Fatal(err)
	}
	if err := fog.Up().Publish("private", []byte("from fog")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "interest in all", func() bool {
		if err := toEdge.Publish("last", nil); err != nil {
			t.Fatal(err)
		}
		for {
			select {
			case m := <-heard:
				if strings.Contains(string(m.Data), "fog") || m.Subject == "private" || strings.HasPrefix(m.Subject, "$SYS.A") {
					t.Fatalf("edge heard %s: %q", m.Subject, m.Data)
				}
				if m.Subject == "last" {
					return true
				}
			default:
				return false
			}
		}
	})
	if e, err := root.Store().Get(t.Context(), "secret"); err != nil || string(e.Value) != "again" {
		t.Fatalf("the root's store: %q, %v", e.Value, err)
	}
}

func TestBadLinksAreRefused(t *testing.T) {
	t.Parallel()
	a, otherCA := newCA(t), newCA(t)
	key := newKey(t)
	for name, spoil := range map[string]func(t *testing.T, up *busserver.Upstream){
		"no certificate": func(_ *testing.T, up *busserver.Upstream) {
			up.TLS = &tls.Config{RootCAs: a.pool, ServerName: "root.test"}
		},
		"certificate of another": func(_ *testing.T, up *busserver.Upstream) {
			up.TLS = &tls.Config{RootCAs: a.pool, ServerName: "root.test", Certificates: []tls.Certificate{otherCA.leaf("cloud")}}
		},
		"another server":        func(_ *testing.T, up *busserver.Upstream) { up.TLS = a.client("cloud", "other.test") },
		"token without its key": func(_ *testing.T, up *busserver.Upstream) { up.Key = key },
		"forged token":          func(t *testing.T, up *busserver.Upstream) { up.JWT, up.Key = always(selfSigned(t, key)), key },
		"changed token": func(t *testing.T, up *busserver.Upstream) {
			up.JWT = always(changed(t, up.JWT(), "$SYS.", "$XYZ."))
		},
		"token of a worker": func(t *testing.T, up *busserver.Upstream) {
			up.JWT, up.Key = always(mustAdd(t, startCluster(t, a, "edge", t.TempDir(), nil), "w1", key)), key
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := &lineCounter{}
			root, err := busserver.StartRoot(t.Context(), busserver.RootOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", TLS: a.server("root.test"), Peer: commonName, Log: slog.New(lines)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(root.Close)
			up := upstream(t, a, root, "cloud")
			spoil(t, up)
			c := startCluster(t, a, "cloud", t.TempDir(), up)
			eventually(t, "two refusals", func() bool { return lines.n.Load() >= 2 })
			if ok, _ := c.UpConnected(); ok {
				t.Fatal("the link is up")
			}
		})
	}
}
