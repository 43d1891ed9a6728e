package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/wire"
)

// dialData opens a TLS connection to the data port of w as somebody.
func dialData(t *testing.T, w *worker, who func() (*tls.Config, error), trust *authority) (*tls.Conn, error) {
	t.Helper()
	cfg, err := who()
	must(t, err)
	cfg.RootCAs = trust.pool
	cfg.ServerName = peerName("edge", w.name)
	cfg.NextProtos = []string{data.ALPN}
	raw, err := net.Dial("tcp", w.DataAddr())
	must(t, err)
	t.Cleanup(func() { _ = raw.Close() })
	must(t, raw.SetDeadline(time.Now().Add(20*time.Second)))
	conn := tls.Client(raw, cfg)
	return conn, conn.Handshake()
}

// askData sends a preamble and returns the answer.
func askData(conn *tls.Conn, p data.Preamble) (data.Status, string, error) {
	b, err := p.Encode()
	if err != nil {
		return 0, "", err
	}
	if _, err := conn.Write(b); err != nil {
		return 0, "", err
	}
	return data.ReadAnswer(conn)
}

func TestDataPortRefusesWhoIsNoWorker(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	w := newWorker(t, ca, "a", nil)
	w.addGreeter(t, "app.web.0")
	anonymous := func() (*tls.Config, error) { return &tls.Config{MinVersion: tls.VersionTLS13}, nil }
	old := func() (*tls.Config, error) {
		c, err := ca.identity(t, "worker/edge/b", "b")()
		if err == nil {
			c.MaxVersion = tls.VersionTLS12
		}
		return c, err
	}
	for name, who := range map[string]func() (*tls.Config, error){
		"no certificate":  anonymous,
		"wrong authority": stranger.identity(t, "worker/edge/b", "b"),
		"not a worker":    ca.identity(t, "cluster/edge", "b"),
		"TLS 1.2":         old,
	} {
		conn, err := dialData(t, w, who, ca)
		if err == nil {
			// In TLS 1.3 the client learns of a refusal when it reads.
			_, _, err = askData(conn, data.Preamble{Instance: "app.web.0", Port: "tcp"})
		}
		if err == nil {
			t.Errorf("%s: was answered", name)
		}
	}
	eventually(t, "all four are counted", func() bool { return w.Stats().Data.Rejected == 4 })
	if st := w.Stats().Data; st.Served != 0 || st.Refused != 0 {
		t.Errorf("stats %+v", st)
	}
	conn, err := dialData(t, w, ca.identity(t, "worker/edge/b", "b"), ca)
	must(t, err)
	if st, _, err := askData(conn, data.Preamble{Instance: "app.web.0", Port: "tcp"}); err != nil ||
		st != data.StatusOK {
		t.Errorf("a worker: %v, %v", st, err)
	}
}

// A router does not speak to an address where another worker, or nobody of its
// authority, answers.
func TestRouterChecksWhoAnswers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	foreign := newWorker(t, newAuthority(t), "c", nil)
	b.addGreeter(t, "app.web.0")
	foreign.addGreeter(t, "app.web.1")
	impostor := b.endpoint("app.web.0")
	impostor.Worker = "c"
	for name, e := range map[string]wire.Endpoint{"other worker": impostor,
		"other authority": foreign.endpoint("app.web.1")} {
		a.SetRoutes([]wire.Route{webRoute(e)})
		if _, id, err := greetFrom(a.addr(t, "tcp")); err == nil {
			t.Errorf("%s: greeted by %s", name, id)
		}
	}
}

func TestDataPortAnswers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	w := newWorker(t, ca, "a", nil)
	ok := w.addGreeter(t, "app.web.0")
	w.engine.set("app.web.1", ok.addr, local.ErrNotReady)
	w.engine.set("app.web.2", ok.addr, errors.Join(errors.New("stop ordered"), local.ErrDraining))
	dead := w.addGreeter(t, "app.web.3")
	dead.kill()
	peer := ca.identity(t, "worker/edge/b", "b")
	for id, want := range map[string]data.Status{
		"app.web.0": data.StatusOK, "app.web.1": data.StatusNotReady, "app.web.2": data.StatusDraining,
		"app.web.3": data.StatusRefused, "app.web.4": data.StatusNoInstance,
	} {
		for _, probe := range []bool{false, true} {
			conn, err := dialData(t, w, peer, ca)
			must(t, err)
			st, why, err := askData(conn, data.Preamble{Instance: id, Port: "tcp", Probe: probe})
			if err != nil || st != want {
				t.Errorf("%s: %v (%s), %v, want %v", id, st, why, err, want)
			}
			if st != data.StatusOK && (why == "" || strings.Contains(why, "127.0.0.1")) {
				t.Errorf("%s: reason %q", id, why)
			}
			rest, err := io.ReadAll(io.LimitReader(conn, 10))
			if probe && (err != nil || len(rest) > 0) {
				t.Errorf("%s: a probe got %q, %v", id, rest, err)
			}
			if st == data.StatusOK && !probe && string(rest) != "app.web.0\n" {
				t.Errorf("stream says %q", rest)
			}
			must(t, conn.Close())
		}
	}
	must(t, w.WaitIdle(t.Context(), "app.web.0"))
}

func TestDataPortCutsOffBadPreambles(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	w := newWorker(t, ca, "a", nil)
	peer := ca.identity(t, "worker/edge/b", "b")
	for name, sent := range map[string][]byte{
		"other protocol": []byte("GET / HTTP/1.1\r\n\r\n"),
		"too long":       append([]byte("VRGD\x01\x00\xff\xff"), make([]byte, 70_000)...),
		"empty":          []byte("VRGD\x01\x00\x00\x00"),
		"bad name":       []byte("VRGD\x01\x00\x00\x05\x03a\nbt"),
		"version":        []byte("VRGD\x02\x00\x00\x05\x03abct"),
	} {
		conn, err := dialData(t, w, peer, ca)
		must(t, err)
		_, _ = conn.Write(sent) // may be cut off while it is written
		st, _, err := data.ReadAnswer(conn)
		if err == nil && st != data.StatusBad {
			t.Errorf("%s: %v", name, st)
		}
		if n, err := io.Copy(io.Discard, conn); n > 0 {
			t.Errorf("%s: %d more bytes, %v", name, n, err)
		}
	}
	eventually(t, "all are closed", func() bool { return w.Stats().Data.Open == 0 })

	// Slow ones, in the handshake and in the preamble, run into the time limit.
	start := time.Now()
	raw, err := net.Dial("tcp", w.DataAddr())
	must(t, err)
	defer func() { must(t, raw.Close()) }()
	conn, err := dialData(t, w, peer, ca)
	must(t, err)
	_, err = conn.Write([]byte("VRGD"))
	must(t, err)
	for name, c := range map[string]net.Conn{"handshake": raw, "preamble": conn} {
		must(t, c.SetReadDeadline(start.Add(4*data.PathTimeout)))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("slow %s: %v", name, err)
		}
	}
	if d := time.Since(start); d < data.PathTimeout/2 {
		t.Errorf("cut off after %v, limit is %v", d, data.PathTimeout)
	}
}

func TestSessionsAreResumed(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var fresh, resumed int
	count := func(s tls.ConnectionState) error {
		if s.DidResume {
			resumed++
		} else {
			fresh++
		}
		return workersOnly(s)
	}
	a := newWorker(t, ca, "a", func(o *Options) { o.PeerAllowed = count })
	b := newWorker(t, ca, "b", nil)
	b.addGreeter(t, "app.web.0")
	a.SetRoutes([]wire.Route{webRoute(b.endpoint("app.web.0"))})
	visit(t, a.addr(t, "tcp"), 5)
	// One after another: the counters have one writer at a time.
	if fresh != 1 || resumed != 4 {
		t.Fatalf("%d fresh and %d resumed handshakes", fresh, resumed)
	}
}

// Another protocol of the same peers shares port and limits, and nothing else.
func TestDataPortServesOtherProtocolsByName(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	w := newWorker(t, ca, "a", func(o *Options) {
		o.Protocols = map[string]func(context.Context, *tls.Conn){"else/1": func(_ context.Context, c *tls.Conn) {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}}
	})
	dial := func(protocol string, who func() (*tls.Config, error)) (*tls.Conn, error) {
		cfg, err := who()
		must(t, err)
		cfg.RootCAs, cfg.ServerName, cfg.NextProtos = ca.pool, peerName("edge", "a"), []string{protocol}
		conn, err := tls.Dial("tcp", w.DataAddr(), cfg)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		return conn, err
	}
	echo := func(conn *tls.Conn) error {
		if _, err := conn.Write([]byte("hello")); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 5))
		return err
	}
	b := ca.identity(t, "worker/edge/b", "b")
	conn, err := dial("else/1", b)
	must(t, err)
	must(t, echo(conn))
	if _, err := dial("other/1", b); err == nil {
		t.Error("an unknown protocol is served")
	}
	if conn, err := dial("else/1", ca.identity(t, "cluster/edge", "c")); err == nil && echo(conn) == nil {
		t.Error("who is no worker is served")
	}
}
