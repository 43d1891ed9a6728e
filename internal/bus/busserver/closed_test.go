package busserver_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/busserver"
)

// freePort is an address that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func startClosed(t *testing.T, a *ca, listen string) *busserver.ClusterServer {
	t.Helper()
	c, err := busserver.StartCluster(t.Context(), busserver.ClusterOptions{
		Name: "edge", Dir: t.TempDir(), Listen: listen, TLS: a.server("cluster.test"), Peer: commonName, Closed: true, Log: quiet(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A cluster that is closed refuses connections at once, so that workers come again, and lets them in
// when it is open.
func TestClosedUntilOpen(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	c := startClosed(t, a, freePort(t))
	if conn, err := net.Dial("tcp", c.Addr()); err == nil {
		_ = conn.Close()
		t.Fatal("it listens before it is open")
	}
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	joinWorker(t, a, c, "w1")
}

// A port that was taken meanwhile is an error that says so.
func TestOpenAtATakenPort(t *testing.T) {
	t.Parallel()
	c := startClosed(t, newCA(t), freePort(t))
	l, err := net.Listen("tcp", c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := c.Open(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("opened at a port that is taken: %v", err)
	}
}

// Who closes a connection does not wait for a server that accepts and says nothing.
func TestCloseDuringAHandshake(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	listen := freePort(t)
	c := startCluster(t, a, "edge", t.TempDir(), nil)
	key := newKey(t)
	token, err := c.AddWorker("w1", key.Public())
	if err != nil {
		t.Fatal(err)
	}
	conn := dialAt(t, a, listen, "w1", token, key) // nobody is there yet
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	silent, err := l.Accept() // a later attempt
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	closed := make(chan struct{})
	go func() { defer close(closed); conn.Close() }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("it waits for the handshake")
	}
}
