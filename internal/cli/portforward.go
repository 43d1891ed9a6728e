package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"os/signal"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/forward"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) portForwardCommand() *cobra.Command {
	address := ""
	cmd := &cobra.Command{
		Use:   "port-forward APP/SERVICE|INSTANCE [LOCAL:]REMOTE…",
		Short: "Forward local ports to an instance",
		Long: "Forward local ports to an instance, wherever it is, over the same connection as verge exec: " +
			"through NAT,\n" +
			"and to ports without an entry. REMOTE is the name of a port in the descriptor, or its number; " +
			"LOCAL is a\n" +
			"port of this machine, 0 or nothing before the colon for any free one. Of a service, the first " +
			"ready instance\n" +
			"is used. TCP only. It runs until Ctrl-C or until the instance ends. When the worker is upgraded, open\n" +
			"connections end and new ones work at once.",
		Example: "  verge port-forward guestbook/store 8080:http\n  verge port-forward guestbook.store.0 :5432",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ports, err := forwardPorts(args[1:])
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			id, err := forwardTarget(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.portForward(cmd.Context(), c, id, address, ports)
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1",
		"address of this machine to listen on; whoever reaches it reaches the instance")
	return cmd
}

// forwardPort is a port of this machine, and what it leads to.
type forwardPort struct {
	local  int // 0 is any
	remote string
}

// forwardPorts reads [LOCAL:]REMOTE.
func forwardPorts(args []string) ([]forwardPort, error) {
	if len(args) > rpc.MaxForwardPorts {
		return nil, &userError{what: "too many ports",
			why: fmt.Sprintf("%d; the limit is %d", len(args), rpc.MaxForwardPorts)}
	}
	var out []forwardPort
	for _, arg := range args {
		local, remote, two := strings.Cut(arg, ":")
		if !two {
			// The same number here; a name has none.
			if remote = local; !isNumber(remote) {
				local = ""
			}
		}
		p := forwardPort{remote: remote}
		var err error
		if local != "" {
			p.local, err = strconv.Atoi(local)
		}
		if err != nil || p.local < 0 || p.local > 65535 || remote == "" || strings.Contains(remote, ":") ||
			len(remote) > 63 {
			return nil, &userError{what: "not a port", why: arg, next: "write LOCAL:REMOTE, for example 8080:http"}
		}
		out = append(out, p)
	}
	return out, nil
}

func isNumber(s string) bool { _, err := strconv.Atoi(s); return err == nil }

// forwardTarget is the instance that is meant by APP/SERVICE, service/APP.SERVICE or
// the name of an instance.
func forwardTarget(ctx context.Context, c *client.Client, arg string) (wire.InstanceID, error) {
	first, rest, slash := strings.Cut(arg, "/")
	if !slash {
		i, err := findInstance(ctx, c, arg)
		return i.ID, err
	}
	app, service := first, rest
	if kind, err := kindOf(first); err == nil {
		var dotted bool
		if app, service, dotted = strings.Cut(rest, "."); kind != kindService || !dotted {
			name, err := instanceRef([]string{arg})
			if err != nil {
				return "", err
			}
			i, err := findInstance(ctx, c, name)
			return i.ID, err
		}
	}
	list, err := c.Instances.List(ctx, app, service)
	if err != nil {
		return "", err
	}
	slices.SortFunc(list, func(a, b apiv1.InstanceView) int { return a.Ordinal - b.Ordinal })
	for _, i := range list {
		if i.State == wire.Running && i.Ready {
			return i.ID, nil
		}
	}
	for _, i := range list {
		if i.State == wire.Running {
			return i.ID, nil
		}
	}
	return "", &userError{what: "no instance runs", why: fmt.Sprintf("%s.%s has %d", app, service, len(list)),
		next: "verge get instances --app " + app}
}

// forwarding carries connections to ports of an instance, by one session after another.
type forwarding struct {
	a     *app
	c     *client.Client
	id    wire.InstanceID
	start rpc.ForwardStart
	// now offers the client of the session that there is.
	now chan *forward.Client
}

// portForward listens, and carries what comes, until ctx or the instance ends.
func (a *app) portForward(ctx context.Context, c *client.Client, id wire.InstanceID, address string,
	ports []forwardPort) error {
	ctx, unhook := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT)
	defer unhook()
	ctx, give := context.WithCancel(ctx)
	defer give()
	f := &forwarding{a: a, c: c, id: id, now: make(chan *forward.Client)}
	var config net.ListenConfig
	var listeners []net.Listener
	var beside sync.WaitGroup
	defer beside.Wait()
	defer give() // before that
	defer func() {
		for _, l := range listeners {
			_ = l.Close() // nobody waits for more
		}
	}()
	for _, p := range ports {
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(p.local)))
		if err != nil {
			return &userError{what: fmt.Sprintf("port %d of this machine is not available", p.local), why: err.Error(),
				next: "choose another, or any: :" + p.remote}
		}
		listeners = append(listeners, l)
		f.start.Ports = append(f.start.Ports, p.remote)
	}
	begun := func() (err error) {
		for i, l := range listeners {
			beside.Go(func() { f.carry(ctx, l, ports[i].remote) })
			err = errors.Join(err, a.printf("forwarding %s to port %s of %s", l.Addr(), ports[i].remote, id))
		}
		return err
	}
	for {
		again, err := f.session(ctx, begun)
		if ctx.Err() != nil || !again {
			return err
		}
		begun = nil
	}
}

// session carries connections until ctx, the session or the instance ends. begun, if set, is
// called once it works: from then on a lost session is tried again for a while. again: it ended
// with its engine.
func (f *forwarding) session(ctx context.Context, begun func() error) (again bool, err error) {
	ctx, give := context.WithCancel(ctx)
	defer give()
	e := &execution{a: f.a, c: f.c, give: give, problems: f.a.err}
	f.start.Key = wire.NewID()
	for {
		e.session, err = twice(ctx, func() (string, error) { return f.c.Exec.Forward(ctx, f.id, f.start) })
		if err == nil {
			break
		}
		if ctx.Err() != nil && begun == nil {
			return false, nil // it was told to end
		}
		if begun != nil || e.lost(ctx, err) != nil {
			return false, err
		}
	}
	defer e.end(context.WithoutCancel(ctx))
	near, far := net.Pipe()
	client, err := forward.NewClient(near)
	if err != nil {
		return false, err
	}
	e.out = far
	var beside sync.WaitGroup
	defer beside.Wait()
	defer give() // before that
	defer client.Close()
	defer context.AfterFunc(ctx, client.Close)()
	beside.Go(func() { e.input(ctx, far, false) })
	beside.Go(func() {
		for {
			select {
			case f.now <- client:
			case <-client.Ended(): // the end of the session follows
				return
			case <-ctx.Done():
				return
			}
		}
	})
	if begun != nil {
		if err := begun(); err != nil {
			return false, err
		}
	}
	last, err := e.drain(ctx)
	give()          // nobody gets this client any more
	_ = far.Close() // who writes to it is let go
	var remote *remoteExit
	switch {
	case errors.As(err, &remote):
		return false, nil // it was told to end
	case err != nil && !sessionGone(err):
		return false, err
	case err != nil || last.Again:
		f.a.notef("open connections have ended (%s); new ones work", clean(lostWhy(last, err)))
		return true, nil
	}
	return false, &userError{what: "the connections to " + f.id + " have ended", why: last.Why,
		next: "verge describe instance/" + f.id}
}

// carry carries the connections that come to l until it is closed. What comes while there
// is no session waits for one.
func (f *forwarding) carry(ctx context.Context, l net.Listener, port string) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		all.Go(func() { f.carryOne(ctx, conn, port) })
	}
}

// carryOne carries a connection. Where a session ends before it was opened, the next one
// has it.
func (f *forwarding) carryOne(ctx context.Context, conn net.Conn, port string) {
	for {
		var client *forward.Client
		select {
		case client = <-f.now:
		case <-ctx.Done():
			_ = conn.Close() // nothing was carried
			return
		}
		err := client.Carry(ctx, conn, port)
		switch {
		case ctx.Err() != nil || err == nil:
			return
		case !errors.Is(err, forward.ErrEnded):
			f.a.notef("%s: %s", conn.RemoteAddr(), clean(firstLine(err)))
			return
		}
	}
}
