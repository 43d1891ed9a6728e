package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/forward"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/session"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// openForward makes a session that carries connections to ports of an instance. An
// instance with a network of its own may be asked for any port; one that shares the
// machine's only for those of its descriptor, since the others are not its own.
func (x *Sessions) openForward(s *execSession, q *rpc.ForwardStart) (what string, err error) {
	in, err := x.o.Find(s.instance)
	if err != nil {
		return "", err
	}
	snap, err := in.Running()
	if err != nil {
		return "", err
	}
	if len(q.Ports) == 0 || len(q.Ports) > rpc.MaxForwardPorts {
		return "", fmt.Errorf("%w: %d ports, 1 to %d are possible", state.ErrBadQuery, len(q.Ports),
			rpc.MaxForwardPorts)
	}
	addrs := map[string][]string{}
	for _, p := range q.Ports {
		if addrs[p], err = dialable(&snap, s.instance, p); err != nil {
			return "", err
		}
	}
	o := session.Options{Stdin: true, Exec: func(ctx context.Context, files runtime.Exec) (wire.Exit, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		over := make(chan struct{})
		defer func() { <-over }()
		defer cancel(nil)
		go func() {
			defer close(over)
			if _, err := snap.Task.Wait(ctx); err == nil {
				cancel(runtime.ErrGone)
			}
		}()
		return wire.Exit{}, forward.Serve(ctx, &pipes{in: files.Stdin, out: files.Stdout},
			func(ctx context.Context, port string) (net.Conn, error) {
				return dialFirst(ctx, port, addrs[port])
			})
	}}
	return "forward " + strings.Join(q.Ports, ", "), x.run(s, o, func(context.Context) {})
}

// dialable is where a port of an instance is found.
func dialable(s *state.Snapshot, id wire.InstanceID, port string) ([]string, error) {
	const title = "the instance has no such port"
	names := strings.Join(slices.Sorted(maps.Keys(s.Ports)), ", ")
	if s.Order.Spec != nil {
		for i := range s.Order.Spec.Ports {
			if p := &s.Order.Spec.Ports[i]; p.Protocol == "udp" &&
				(state.PortName(p) == port || port == strconv.Itoa(p.Number)) {
				return nil, wire.Problemf(http.StatusUnprocessableEntity, "no-such-port",
					"name a port whose protocol is not udp", title,
					"port %s of %s is for datagrams, and connections alone are carried", port, id)
			}
		}
	}
	n, ok := s.Ports[port]
	if number, err := strconv.Atoi(port); !ok && err == nil && number > 0 && number < 1<<16 {
		ok = len(s.Addrs) > 0
		for _, p := range s.Ports {
			ok = ok || p == number
		}
		n = number
	}
	if !ok {
		return nil, wire.Problemf(http.StatusUnprocessableEntity, "no-such-port",
			"name one of its ports: "+cmp.Or(names, "it has none"), title, "%s has no port %.63s", id, port)
	}
	if len(s.Addrs) == 0 {
		return []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(n))}, nil
	}
	var out []string
	for _, a := range s.Addrs {
		out = append(out, net.JoinHostPort(a.String(), strconv.Itoa(n)))
	}
	return out, nil
}

// dialFirst connects to the first of some addresses that answers.
func dialFirst(ctx context.Context, port string, addrs []string) (net.Conn, error) {
	if len(addrs) == 0 {
		return nil, fmt.Errorf("port %.63q was not asked for", port)
	}
	var d net.Dialer
	var all error
	for _, a := range addrs {
		conn, err := d.DialContext(ctx, "tcp", a)
		if err == nil {
			return conn, nil
		}
		all = fmt.Errorf("connect to port %s of the instance: %w", port, state.WithoutAddress(err))
	}
	return nil, all
}

// pipes are a session's as a connection.
type pipes struct{ in, out *os.File }

var _ net.Conn = (*pipes)(nil)

func (p *pipes) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.out.Write(b) }

// Close ends reading and writing; the files stay the session's to close.
func (p *pipes) Close() error { return p.SetDeadline(time.Unix(1, 0)) }

func (p *pipes) SetDeadline(t time.Time) error {
	return errors.Join(p.SetReadDeadline(t), p.SetWriteDeadline(t))
}
func (p *pipes) SetReadDeadline(t time.Time) error  { return p.in.SetReadDeadline(t) }
func (p *pipes) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

// LocalAddr and RemoteAddr are for messages alone.
func (p *pipes) LocalAddr() net.Addr  { return &net.UnixAddr{Net: "unix", Name: "session"} }
func (p *pipes) RemoteAddr() net.Addr { return p.LocalAddr() }
