package busserver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/credentials"
)

// A plugin hears its own questions, answers each once, and nothing else: whatever it
// publishes or subscribes to beyond is refused by the server.
func TestPluginCannotLeaveItsSubjects(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	b, _, _ := joinWorker(t, a, edge, "b")
	answer(t, b, "o.b.ask", "b")
	key := newKey(t)
	token, err := edge.AddPlugin("sage", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1000)
	if _, err := edge.Local().Subscribe(">", func(_ context.Context, m bus.Msg) { heard <- m.Subject }); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{
		"plugin.sage.ask", "plugin.sage.x", "plugin.other.ask", "w.b.report", "w.sage.report", "w.sage.demand", "o.b.ask", "o.sage.x",
		"_INBOX.x", "_INBOX.x.y", "_INBOX_b.x", "_INBOX_sage.x", "x", "s.secret.b",
		"$JS.API.INFO", "$JS.API.STREAM.DELETE.STORE", "$JS.API.DIRECT.GET.STORE.s.secret.b", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "$KV.x.y", "_R_.x",
	} {
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
		">", "*", "*.>", "*.*.*", "plugin.>", "plugin.*.*", "plugin.*.ask", "plugin.other.*", "*.sage.*", "plugin.*.>", "plugin.sage.ask.x", "plugin.sage",
		"w.>", "w.b.report", "o.>", "o.b.>", "o.sage.>", "_INBOX.>", "_INBOX_sage.>", "s.>", "$JS.>", "$SYS.>", "$KV.>",
	} {
		r, err := rawClient(t, a, edge, token, key)
		if err != nil {
			t.Fatal(err)
		}
		if !r.refused(t, func() error { _, err := r.SubscribeSync(s); return err }) {
			t.Errorf("subscription to %s was not refused", s)
		}
		if !r.refused(t, func() error { _, err := r.QueueSubscribeSync(s, "sage"); return err }) {
			t.Errorf("subscription of a group to %s was not refused", s)
		}
		r.Close()
	}
	select {
	case s := <-heard:
		t.Errorf("something came through to %s", s)
	default:
	}
	if connected := workersOf(edge); connected["sage"] || connected["plugin/sage"] {
		t.Errorf("it is taken for a worker: %v", connected)
	}
}

func workersOf(c *busserver.ClusterServer) map[string]bool {
	out := map[string]bool{}
	c.OnWorker(func(id string, up bool) { out[id] = up })
	return out
}

// Of several processes of a plugin one is asked; its first answer counts, the second is
// refused by the server; and revoking the key ends all of it.
func TestPluginIsAsked(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	edge := startCluster(t, a, "edge", t.TempDir(), nil)
	ask := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		got, err := edge.Local().Request(ctx, credentials.PluginSubject("sage"), []byte("question"))
		return string(got), err
	}
	if _, err := ask(); err == nil {
		t.Error("nobody is there, and somebody answers")
	}
	key := newKey(t)
	token, err := edge.AddPlugin("sage", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	// The form of the credentials that other languages read.
	text, err := key.Credentials(token)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "nats.creds")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 10)
	var conns []*nats.Conn
	for _, name := range []string{"one", "two"} {
		closed := make(chan struct{})
		nc, err := nats.Connect("nats://"+edge.Addr(), rawOptions(a.client(credentials.PluginUser("sage"), "cluster.test"), nats.UserCredentials(file), nats.ClosedHandler(func(*nats.Conn) { close(closed) }),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close(); <-closed })
		conns = append(conns, nc)
		if _, err := nc.QueueSubscribe(credentials.PluginSubjects("sage"), "sage", func(m *nats.Msg) {
			asked <- name
			_ = m.Respond([]byte("first"))
			_ = m.Respond([]byte("second"))
		}); err != nil {
			t.Fatal(err)
		}
		if err := nc.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if got, err := ask(); err != nil || got != "first" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if len(asked) != 5 {
		t.Errorf("5 questions reached %d", len(asked))
	}
	for _, nc := range conns {
		if err := nc.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
	}
	violations := 0
	for _, nc := range conns {
		if nc.LastError() != nil {
			violations++
		}
	}
	if violations == 0 {
		t.Error("second answers are not refused")
	}
	if err := edge.RevokeWorker("sage", key.Public()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "connections that are cut", func() bool { return conns[0].IsClosed() && conns[1].IsClosed() })
	if _, err := ask(); err == nil {
		t.Error("it answers after its key was revoked")
	}
	if _, err := nats.Connect("nats://"+edge.Addr(), rawOptions(a.client(credentials.PluginUser("sage"), "cluster.test"), nats.UserCredentials(file), nats.Timeout(5*time.Second))...); err == nil {
		t.Error("it connects after its key was revoked")
	}
}
