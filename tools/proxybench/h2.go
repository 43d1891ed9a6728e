package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// protocol is what clients speak.
type protocol int

const (
	http1Plain protocol = iota
	http1TLS
	h2Plain // with prior knowledge
	h2OverTLS
	grpcUnary
)

// atATime is how many requests a client of HTTP/2 has under way on each connection.
const atATime = 8

func connectH2(addr string, w workload) (*clients, error) {
	c := &clients{}
	for range w.conns {
		send, done, err := h2Client(addr, w.protocol)
		if err != nil {
			c.close()
			return nil, err
		}
		c.done = append(c.done, done)
		for range atATime {
			c.send = append(c.send, send)
		}
	}
	return c, nil
}

// h2Client is one connection.
func h2Client(addr string, p protocol) (send func() error, done func(), _ error) {
	if p == grpcUnary {
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, nil, fmt.Errorf("connect: %w", err)
		}
		c := healthpb.NewHealthClient(conn)
		return func() error {
			_, err := c.Check(context.Background(), &healthpb.HealthCheckRequest{})
			return err
		}, func() { _ = conn.Close() }, nil
	}
	t := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true,
		TLSClientConfig: &tls.Config{ServerName: benchHost,
			InsecureSkipVerify: true}, //nolint:gosec // nothing secret is sent
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	scheme := "http"
	if p == h2OverTLS {
		scheme = "https"
		t.Protocols.SetHTTP2(true)
	} else {
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	req, err := http.NewRequest(http.MethodGet, scheme+"://"+benchHost+"/", nil)
	if err != nil {
		return nil, nil, fmt.Errorf("make a request: %w", err)
	}
	return func() error {
		res, err := t.RoundTrip(req.Clone(context.Background()))
		if err != nil {
			return fmt.Errorf("ask: %w", err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if n != 1024 || res.StatusCode != http.StatusOK || res.ProtoMajor != 2 {
			return fmt.Errorf("answered with %s %s, %d bytes", res.Proto, res.Status, n)
		}
		return nil
	}, t.CloseIdleConnections, nil
}

// serveGRPC answers calls of the health service.
func serveGRPC(ln net.Listener) {
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	_ = s.Serve(ln)
}

// grpcUpstream is where the instance of gRPC is, which is started if need be.
func (b *measurer) grpcUpstream() (string, error) {
	if b.grpc == "" {
		var s started
		if _, err := b.start(asGRPC, task{}, &s); err != nil {
			return "", err
		}
		b.grpc = s.Addr
	}
	return b.grpc, nil
}

// reverse is the standard library's proxy, plain, with TLS, or for gRPC.
func (b *measurer) reverse(how string) func() (*target, error) {
	return func() (*target, error) {
		t := task{Upstream: b.upstream, Profile: b.profile("reverse" + how), GRPC: how == "grpc"}
		var err error
		switch how {
		case "tls":
			t.Cert, err = b.pem()
		case "grpc":
			t.Upstream, err = b.grpcUpstream()
		}
		if err != nil {
			return nil, err
		}
		var s started
		p, err := b.start(asReverse, t, &s)
		if err != nil {
			return nil, err
		}
		return &target{addr: s.Addr, processes: []*process{p}}, nil
	}
}

func (b *measurer) hereGRPC() (*target, error) {
	upstream, err := b.grpcUpstream()
	if err != nil {
		return nil, err
	}
	t, _, err := b.routerHere("grpc", upstream)
	return t, err
}

func (b *measurer) thereGRPC() (*target, error) {
	upstream, err := b.grpcUpstream()
	if err != nil {
		return nil, err
	}
	return b.routersTo("grpc", upstream)
}
