package profiles

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/proxy/drive"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// maxProfiles are the services that are kept busy at a time.
	maxProfiles = 4
	// profilePlaces is what an instance is asked at a time where its service says no
	// number.
	profilePlaces = wire.DefaultConcurrency
	// profileWarm is the time before measurements count, as a part of the whole, and at most.
	profileWarmPart = 10
	profileWarm     = 5 * time.Second
	// profileAnswer is how long a single answer may take.
	profileAnswer = 30 * time.Second
)

// Router is what profiles need of the router.
type Router interface {
	// Ask sends a request to an instance of this worker, through its queue; Places is
	// how many it may work on at a time, 0 for any number.
	Ask(id wire.InstanceID, port string, req *http.Request) (status int, err error)
	Places(id wire.InstanceID) int
}

// Options of Profiles.
type Options struct {
	Worker string
	Router Router
	// Order is what an instance that is here is to run, or state.ErrNoInstance.
	Order func(wire.InstanceID) (wire.Order, error)
	// Start runs a function until it returns; its context is done when the engine ends.
	Start func(func(engine context.Context)) error
	Log   *slog.Logger
}

// Profiles are the services that are kept busy to see what they do.
type Profiles struct {
	o Options

	mu sync.Mutex // guards below
	by map[string]*profile
}

// New sends requests by the router.
func New(o Options) *Profiles { return &Profiles{o: o, by: map[string]*profile{}} }

// profile is one of them.
type profile struct {
	key, owner string
	n, clients int
	loop       *drive.Loop
	end        context.CancelFunc
	// idle ends and forgets it when nobody has asked for long.
	idle *time.Timer
}

// Step takes one step of keeping a service busy to see what it does.
func (r *Profiles) Step(q *rpc.ProfileAsk, owner string) (*rpc.ProfileReport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := q.App + "." + q.Service
	run := r.by[name]
	if q.Do == rpc.ProfileStart && q.Load != nil {
		if run != nil && run.key != q.Key && !run.loop.Report().Over {
			return nil, wire.Problemf(http.StatusConflict, "profiled-already", "wait until it is over",
				"it is being profiled already", "%s is, on worker %s", name, r.o.Worker)
		}
		if run == nil || run.key != q.Key {
			var err error
			if run, err = r.startLocked(name, q, owner); err != nil {
				return nil, err
			}
		}
	}
	if run == nil || run.key != q.Key || run.owner != owner {
		return nil, noProfile(name)
	}
	switch q.Do {
	case rpc.ProfileStart, rpc.ProfileLook:
		run.idle.Reset(rpc.ProfileIdle)
	case rpc.ProfileEnd:
		run.end()
	default:
		return nil, fmt.Errorf("%w: profiling has no step %q with that", state.ErrBadQuery, q.Do)
	}
	got := run.loop.Report()
	node := rpc.ProfileNode{
		Worker: r.o.Worker, Instances: run.n, State: rpc.ProfileRuns, Concurrency: run.clients,
		Requests: got.Requests, Errors: got.Errors, Span: api.Duration(got.Span), Problem: got.Why,
		Mean: api.Duration(got.Mean), P50: api.Duration(got.P50), P99: api.Duration(got.P99),
	}
	switch {
	case got.Over && got.Why != "":
		node.State = rpc.ProfileFailed
	case got.Over:
		node.State = rpc.ProfileDone
	}
	return &rpc.ProfileReport{V: wire.Version, App: q.App, Service: q.Service, State: node.State, Why: got.Why,
		Nodes: []rpc.ProfileNode{node}}, nil
}

func noProfile(name string) error {
	return wire.Problemf(http.StatusNotFound, "not-profiled", "start again: verge profile "+name,
		"it is not being profiled",
		"%s: that was never begun here, was not asked for %s, or who did it was started again", name, rpc.ProfileIdle)
}

// startLocked begins to keep instances busy.
func (r *Profiles) startLocked(name string, q *rpc.ProfileAsk, owner string) (*profile, error) {
	if len(r.by) >= maxProfiles && r.by[name] == nil {
		return nil, wire.Problemf(http.StatusTooManyRequests, "too-many-profiles", "wait until one is over",
			"too much is being profiled", "%d services are on worker %s, which is the most", len(r.by), r.o.Worker)
	}
	ask, n, clients, err := r.profileAsks(name, q)
	if err != nil {
		return nil, err
	}
	span := min(max(q.Load.For.Std(), time.Second), rpc.MaxProfileFor)
	loop := drive.New(drive.Plan{Clients: clients, Warm: min(span/profileWarmPart, profileWarm), For: span, Ask: ask})
	ctx, end := context.WithCancel(context.Background())
	run := &profile{key: q.Key, owner: owner, n: n, clients: clients, loop: loop, end: end}
	run.idle = time.AfterFunc(rpc.ProfileIdle, func() {
		end()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.by[name] == run {
			delete(r.by, name)
		}
	})
	err = r.o.Start(func(engine context.Context) {
		defer context.AfterFunc(engine, end)()
		loop.Run(ctx)
	})
	if err != nil {
		run.idle.Stop()
		end()
		return nil, err
	}
	if old := r.by[name]; old != nil {
		old.idle.Stop()
	}
	r.by[name] = run
	r.o.Log.Info("a service is kept busy to see what it does", "service", name, "who", owner, "requests at a time",
		clients, "for", span)
	return run, nil
}

// profileAsks makes one request of a client after the other: each client has one
// instance, which are shared out in turn.
func (r *Profiles) profileAsks(name string, q *rpc.ProfileAsk) (ask func(context.Context, int) error, n, clients int,
	err error) {
	load := q.Load
	var port *api.Port
	for _, id := range q.Instances {
		o, err := r.o.Order(id)
		if err != nil {
			return nil, 0, 0, err
		}
		spec := o.Spec
		if spec == nil || o.App != q.App || o.Service != q.Service {
			return nil, 0, 0, fmt.Errorf("%w: %q is none of %s", state.ErrNoInstance, id, name)
		}
		for i := range spec.Ports {
			if p := &spec.Ports[i]; p.ForRequests() && (load.Port == "" || state.PortName(p) == load.Port) {
				port = p
				break
			}
		}
	}
	if port == nil {
		return nil, 0, 0, wire.Problemf(http.StatusUnprocessableEntity, "no-http", "verge describe service/"+name,
			"the service takes no requests", "%s has no such port whose protocol is http or grpc", name)
	}
	where, err := url.ParseRequestURI(cmp.Or(load.Path, "/"))
	if err != nil || !strings.HasPrefix(where.Path, "/") || where.Host != "" {
		return nil, 0, 0, wire.Problemf(http.StatusUnprocessableEntity, "bad-path", "write it as /a/path?query",
			"that is no path", "%.100q", load.Path)
	}
	method, kind, body := cmp.Or(load.Method, http.MethodGet), cmp.Or(load.Type, "application/octet-stream"), load.Body
	if port.Protocol == "grpc" {
		if method, kind, body, err = unaryCall(name, where.Path, load); err != nil {
			return nil, 0, 0, err
		}
	}
	each := load.Concurrency
	if each == 0 {
		each = cmp.Or(r.o.Router.Places(q.Instances[0]), profilePlaces)
	}
	n = len(q.Instances)
	clients = min(n*each, rpc.MaxProfileConcurrency)
	host := name
	if port.Ingress != nil && port.Ingress.Host != "" {
		host = port.Ingress.Host
	}
	to := state.PortName(port)
	return func(ctx context.Context, client int) error {
		ctx, cancel := context.WithTimeout(ctx, profileAnswer)
		defer cancel()
		u := *where
		req, err := http.NewRequestWithContext(ctx, method, "http://"+host, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.URL, req.Host = &u, host
		req.Header.Set("User-Agent", "verge-profile")
		if len(body) > 0 {
			req.Header.Set("Content-Type", kind)
		}
		if port.Protocol == "grpc" {
			req.Header.Set("Te", "trailers")
		}
		id := q.Instances[client%n]
		status, err := r.o.Router.Ask(id, to, req)
		if err == nil && status >= 400 {
			err = fmt.Errorf("%s answered %d %s", id, status, http.StatusText(status))
		}
		return err
	}, n, clients, nil
}

var grpcMethod = regexp.MustCompile(`^/[^/]+/[^/]+$`)

// unaryCall is the request of a unary call of gRPC: the body of the load is the message,
// encoded as the service expects it; none is the empty message.
func unaryCall(name, path string, load *rpc.ProfileLoad) (method, kind string, body []byte, err error) {
	const title = "that is no call of gRPC"
	refused := func(next, detail string, args ...any) error {
		return wire.Problemf(http.StatusUnprocessableEntity, "no-call", next, title, detail, args...)
	}
	kind = cmp.Or(load.Type, "application/grpc")
	switch {
	case !grpcMethod.MatchString(path):
		return "", "", nil, refused("--path /package.Service/Method",
			"the port of %s is for gRPC, and %.100q names no method", name, path)
	case cmp.Or(load.Method, http.MethodPost) != http.MethodPost:
		return "", "", nil, refused("leave --method out", "the port of %s is for gRPC, whose calls are POST, not %.16q",
			name, load.Method)
	case !strings.HasPrefix(kind, "application/grpc"):
		return "", "", nil, refused("leave --type out", "the port of %s is for gRPC, whose content type is not %.100q",
			name, kind)
	}
	// Not compressed, and how long it is.
	body = binary.BigEndian.AppendUint32([]byte{0}, uint32(len(load.Body))) //nolint:gosec // at most rpc.MaxProfileBody
	return http.MethodPost, kind, append(body, load.Body...), nil
}
