package proxytest

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/verge-edge/verge/internal/wire"
)

// grpcCalls: a server and a client of gRPC, as everybody has them. They are understood
// at a port for http too.
func grpcCalls(t *testing.T, build Build) {
	for _, protocol := range []string{"grpc", "http"} {
		t.Run(protocol, func(t *testing.T) { grpcCallsAt(t, protocol, build) })
	}
}

func grpcCallsAt(t *testing.T, protocol string, build Build) {
	l := &handed{conns: make(chan net.Conn), over: make(chan struct{})}
	srv := grpc.NewServer()
	h := health.NewServer()
	healthpb.RegisterHealthServer(srv, h)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends with the server
	}()
	t.Cleanup(func() {
		srv.Stop()
		<-done
	})
	addr := build(t, protocol, wire.RequestRules{}, func(c net.Conn) {
		ended := make(chan struct{})
		select {
		case l.conns <- &closing{Conn: c, ended: ended}:
			<-ended
		case <-l.over:
		}
	})
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	defer func() { _ = conn.Close() }()
	c := healthpb.NewHealthClient(conn)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for range 10 {
		res, err := c.Check(ctx, &healthpb.HealthCheckRequest{})
		if err != nil || res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Fatalf("%v, %v", res, err)
		}
	}
	if _, err := c.Check(ctx, &healthpb.HealthCheckRequest{Service: "unknown"}); status.Code(err) != codes.NotFound {
		t.Errorf("an error came as %v", err)
	}
	if err := conn.Invoke(ctx, "/no.Such/Method", &healthpb.HealthCheckRequest{},
		&healthpb.HealthCheckResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method came as %v", err)
	}
	// A stream, whose messages come when they are sent.
	stream, err := c.Watch(ctx, &healthpb.HealthCheckRequest{Service: "x"})
	must(t, err)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{
		healthpb.HealthCheckResponse_SERVICE_UNKNOWN, healthpb.HealthCheckResponse_SERVING,
		healthpb.HealthCheckResponse_NOT_SERVING,
	} {
		if want != healthpb.HealthCheckResponse_SERVICE_UNKNOWN {
			h.SetServingStatus("x", want)
		}
		if m, err := stream.Recv(); err != nil || m.GetStatus() != want {
			t.Fatalf("%v, %v", m, err)
		}
	}
	// Its deadline ends a stream.
	short, cancelShort := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancelShort()
	stream, err = c.Watch(short, &healthpb.HealthCheckRequest{Service: "y"})
	if err == nil {
		_, err = stream.Recv()
	}
	for err == nil {
		_, err = stream.Recv()
	}
	// The server was told the same deadline, and says Canceled where it notices first.
	if code := status.Code(err); code != codes.DeadlineExceeded && (code != codes.Canceled || short.Err() == nil) {
		t.Errorf("past the deadline: %v", err)
	}
}
