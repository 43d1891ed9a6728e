package upstream

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/proxy/h2client"
	"github.com/verge-edge/verge/internal/proxy/http1"
)

// IdleTimeout is how long a connection to an instance is kept for the next
// request.
const IdleTimeout = 60 * time.Second

// maxResponseHeader bounds the head of an answer.
const maxResponseHeader = 256 << 10

// Transport has kept connections to a port of an instance: over HTTP/1.1, one request
// after the other, or over HTTP/2 many at a time.
type Transport struct {
	H1 *http.Transport
	H2 *h2client.Client // nil: h1 is not
}

// CloseIdleConnections closes those that no request uses.
func (t *Transport) CloseIdleConnections() {
	if t.H2 != nil {
		t.H2.CloseIdleConnections()
		return
	}
	t.H1.CloseIdleConnections()
}

// NewTransport keeps the connections that dial opens, or opens one for each request
// (once).
func NewTransport(dial func(context.Context) (*Conn, error), h2, once bool, log *slog.Logger) *Transport {
	if h2 {
		return &Transport{H2: h2client.New(h2client.Options{
			Dial: func(wanted context.Context) (net.Conn, error) {
				c, err := dial(context.WithValue(context.Background(), WantedBy{}, wanted))
				if err != nil {
					return nil, err
				}
				return &c.HeldConn, nil // there, something to read means nothing
			},
			Idle: IdleTimeout, MaxHead: maxResponseHeader, Once: once, Log: log,
		})}
	}
	return &Transport{H1: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		DisableKeepAlives:      once,
		DisableCompression:     true, // bodies pass as they are
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        IdleTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
	}}
}

// WantedBy is where the context of a dial has that of the request which it is for; a
// transport dials on when that ends.
type WantedBy struct{}

// Key is what a transport to an endpoint is for.
type Key struct {
	Port string
	H2   bool
}

// NewPool keeps connections as NewTransport does.
func NewPool() *http1.Pool { return &http1.Pool{Max: 256, Idle: IdleTimeout} }
