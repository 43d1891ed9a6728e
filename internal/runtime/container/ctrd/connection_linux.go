package ctrd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc"

	"github.com/verge-edge/verge/internal/runtime"
)

// Connection to containerd, which is open while somebody uses it.
type Connection struct {
	Address string
	log     *slog.Logger
	Timeout time.Duration // how long containerd may take to answer

	mu sync.Mutex
	// Guarded by mu.
	client   *containerd.Client // nil while nobody uses it
	users    int
	together bool // containerd has the mounts of this process; known of client
}

// New asks containerd nothing. timeout 0 is a minute.
func New(address string, timeout time.Duration, log *slog.Logger) *Connection {
	return &Connection{Address: address, log: log, Timeout: cmp.Or(timeout, wedgedAfter)}
}

// Socket is the path of containerd's socket.
func (c *Connection) Socket() string { return strings.TrimPrefix(c.Address, "unix://") }

// Dial connects to containerd's socket.
func (c *Connection) Dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(c.Address, "unix://"))
	if err != nil {
		return nil, c.Away(err)
	}
	return conn, nil
}

// Away says that containerd does not answer.
func (c *Connection) Away(err error) error {
	return fmt.Errorf("containerd at %s: %w (%w); is it installed and running? systemctl status containerd", c.Address,
		runtime.ErrAway, err)
}

// Use returns a client of containerd, to be released. Concurrent users share one; the last release
// closes it.
func (c *Connection) Use(ctx context.Context) (*containerd.Client, func(), error) {
	c.mu.Lock()
	if c.client != nil { // whose connection tells those who ask if nobody listens
		defer c.mu.Unlock()
		c.users++
		return c.client, c.release, nil
	}
	c.mu.Unlock()
	conn, err := c.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.Close() // it was only a knock
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		made, err := containerd.New(c.Address, containerd.WithDefaultNamespace(Namespace), containerd.WithTimeout(AnswerWithin),
			containerd.WithExtraDialOpts([]grpc.DialOption{grpc.WithChainUnaryInterceptor(callTimeout(c.Timeout))}))
		if err != nil {
			return nil, nil, c.Away(err)
		}
		c.client = made
	}
	c.users++
	return c.client, c.release, nil
}

func (c *Connection) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.users--
	if c.users == 0 {
		if err := c.client.Close(); err != nil {
			c.log.Debug("close the connection to containerd", "error", err)
		}
		c.client, c.together = nil, false
	}
}

// IsNotFound says so of what comes over the wire, too.
func IsNotFound(err error) bool {
	return err != nil && (errdefs.IsNotFound(err) || errdefs.IsNotFound(errgrpc.ToNative(err)))
}

// OrAway wraps runtime.ErrAway if that is what err means.
func (c *Connection) OrAway(err error) error {
	if err != nil && (errdefs.IsUnavailable(err) || errdefs.IsUnavailable(errgrpc.ToNative(err))) {
		return c.Away(err)
	}
	return err
}

const (
	// AnswerWithin bounds how long containerd may take to accept a connection, and to answer a
	// short question.
	AnswerWithin = 3 * time.Second
)
