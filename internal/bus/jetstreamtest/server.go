// Package jetstreamtest starts servers with nothing but a log, for the tests of what is built
// upon streams. The server of a tier, with accounts and ports, is package busserver.
package jetstreamtest

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server has a directory for streams and no port.
type Server struct {
	t  testing.TB
	ns *server.Server
}

// Start starts a server, which the end of the test stops.
func Start(t testing.TB, dir string) *Server {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		ServerName: "test", StoreDir: filepath.Join(dir, "jetstream"), JetStream: true, SyncAlways: true,
		NoSigs: true, DontListen: true, MaxPayload: 32 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not become ready")
	}
	s := &Server{t: t, ns: ns}
	t.Cleanup(s.Close)
	return s
}

// Conn is a connection to the server.
func (s *Server) Conn() *nats.Conn {
	s.t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(s.ns))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// StopLog ends JetStream while the server goes on, which the server does by itself when its
// disk fails.
func (s *Server) StopLog() {
	s.t.Helper()
	if err := s.ns.ShutdownJetStream(); err != nil {
		s.t.Fatal(err)
	}
}

// Close stops the server.
func (s *Server) Close() {
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}
