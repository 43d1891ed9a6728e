package ctrd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-edge/verge/internal/runtime"
)

// Health asks containerd whether it serves, on a connection of its own. The kernel accepts
// connections even for a stopped or hung process: only an answer shows that it works.
//
// The call is written with the framer of HTTP/2 alone. A client of gRPC would be made and
// closed for each call, since none is kept while nobody uses one, and takes four times as
// much processor time (1.2 ms against 0.3 ms, both processes together), on idle machines too.
func (c *Connection) Health(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := c.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // what was asked is answered, or never will be
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if err := checkHealth(conn); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("containerd at %s: %w: it accepts connections and has not answered for %s; "+
				"what does ps show of it (T: stopped)? else systemctl restart containerd",
				c.Address, runtime.ErrAway, within)
		}
		return c.Away(err)
	}
	return nil
}

// checkHealth calls grpc.health.v1.Health/Check. Whatever is answered, somebody did.
func checkHealth(conn net.Conn) error {
	var fields, call bytes.Buffer
	enc := hpack.NewEncoder(&fields)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path",
			Value: "/grpc.health.v1.Health/Check"}, {Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		if err := enc.WriteField(f); err != nil {
			return err
		}
	}
	const stream, emptyMessage = 1, "\x00\x00\x00\x00\x00"
	call.WriteString(http2.ClientPreface)
	frames := http2.NewFramer(&call, conn)
	err := frames.WriteSettings()
	if err == nil {
		err = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: fields.Bytes(), EndHeaders: true})
	}
	if err == nil {
		err = frames.WriteData(stream, true, []byte(emptyMessage))
	}
	if err == nil {
		_, err = io.Copy(conn, &call)
	}
	for err == nil {
		var f http2.Frame
		if f, err = frames.ReadFrame(); err == nil && f.Header().StreamID == stream {
			return nil
		}
	}
	return err
}
