package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/accept"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of a conversation with the agent.
const (
	headerWithin    = 10 * time.Second
	bodyWithin      = 30 * time.Second
	idleWithin      = 2 * time.Minute
	maxHeader       = 16 << 10
	maxExecBytes    = 1 << 20
	maxDevicesBytes = 1 << 20
	maxUpgradeBytes = 64 << 10
	closeWithin     = 2 * time.Second
	// maxMeasureBytes of a question what to measure.
	maxMeasureBytes = 64 << 10
)

// Engine is what the agent asks for.
type Engine interface {
	Orders
	Reports
	Volumes
	Control
}

// Orders are how the agent says what should be.
type Orders interface {
	Apply(ctx context.Context, o engineapi.EngineOrders) error
	Change(ctx context.Context, c engineapi.EngineChanges) error
	Plug(ctx context.Context, d engineapi.EngineDevices) error
}

// Reports are the present states.
type Reports interface {
	State(ctx context.Context, after uint64, wait time.Duration) (engineapi.EngineState, error)
	Logs(ctx context.Context, id wire.InstanceID, q rpc.LogAsk) (rpc.LogChunk, error)
	Entries(ctx context.Context) ([]rpc.EntryView, error)
	Metrics(ctx context.Context) ([]byte, error)
	Top(ctx context.Context) (rpc.WorkerTop, error)
	Demand(ctx context.Context, wait time.Duration) (wire.Demand, error)
	Route(ctx context.Context, key string) (rpc.RouteReport, error)
	Net(ctx context.Context) (rpc.NetReport, error)
	Measure(ctx context.Context, q rpc.MeasureAsk) (rpc.Measured, error)
}

// Volumes are the named volumes.
type Volumes interface {
	Volumes(ctx context.Context) ([]rpc.VolumeView, error)
	RemoveVolume(ctx context.Context, r wire.VolumeRef) error
}

// Control is what is done beside instances, and with the engine.
type Control interface {
	Exec(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error)
	Upgrade(ctx context.Context, q engineapi.EngineUpgrade) (engineapi.EngineUpgraded, error)
	// BeginShutdown stops all instances and then the engine, and returns at once.
	BeginShutdown()
}

// Server answers the agent.
type Server struct {
	engine Engine
	log    *slog.Logger
}

// New answers for an engine.
func New(engine Engine, log *slog.Logger) *Server {
	return &Server{engine: engine, log: log}
}

// Serve answers on the socket at path until stop is called; failed receives an error that ends it
// earlier.
func (s *Server) Serve(path string, failed func(error)) (stop func(), err error) {
	l, err := unixsock.Listen(path)
	if err != nil {
		return nil, err
	}
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerWithin,
		IdleTimeout:       idleWithin,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(accept.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			failed(err)
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			_ = srv.Close() // who did not end by now is cut off
		}
		<-done
	}, nil
}

// Handler is the engine's side of the messages in package wire.
func (s *Server) Handler() http.Handler {
	e, mux := s.engine, http.NewServeMux()
	mux.HandleFunc("PUT /v1/orders", put(s, state.MaxOrderBytes, state.ErrBadOrders, e.Apply))
	mux.HandleFunc("PATCH /v1/orders", put(s, state.MaxOrderBytes, state.ErrBadOrders, e.Change))
	mux.HandleFunc("PUT /v1/devices", put(s, maxDevicesBytes, state.ErrBadQuery, e.Plug))
	mux.HandleFunc("POST /v1/measure", post(s, maxMeasureBytes, e.Measure))
	mux.HandleFunc("POST /v1/exec", post(s, maxExecBytes, e.Exec))
	mux.HandleFunc("POST /v1/upgrade", post(s, maxUpgradeBytes, e.Upgrade))
	mux.HandleFunc("POST /v1/shutdown", func(w http.ResponseWriter, _ *http.Request) {
		e.BeginShutdown()
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("GET /v1/state", get(s, s.state))
	mux.HandleFunc("GET /v1/logs", get(s, s.logs))
	mux.HandleFunc("GET /v1/demand", get(s, s.demand))
	mux.HandleFunc("GET /v1/entries", get(s, simple(e.Entries)))
	mux.HandleFunc("GET /v1/top", get(s, simple(e.Top)))
	mux.HandleFunc("GET /v1/net", get(s, simple(e.Net)))
	mux.HandleFunc("GET /v1/volumes", get(s, simple(e.Volumes)))
	mux.HandleFunc("GET /v1/route",
		get(s, func(r *http.Request) (rpc.RouteReport, error) { return e.Route(r.Context(), r.FormValue("service")) }))
	mux.HandleFunc("GET /v1/metrics", s.metrics)
	mux.HandleFunc("DELETE /v1/volumes", s.deleteVolume)
	return mux
}

// body reads what was sent, within its time.
func body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	// A deadline for the whole request would also end long answers.
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyWithin)); err != nil {
		return nil, err
	}
	b, err := atomicfile.ReadAllBounded(r.Body, most)
	if err != nil {
		return nil, err
	}
	return b, control.SetReadDeadline(time.Time{})
}

// decode decodes a body as a T; errors wrap bad.
func decode[T any](w http.ResponseWriter, r *http.Request, most int64, bad error) (v T, err error) {
	b, err := body(w, r, most)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", bad, err)
	}
	return v, err
}

// get answers a question that is in the request's line.
func get[Out any](s *Server, ask func(*http.Request) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		out, err := ask(r)
		s.answer(w, out, err)
	}
}

// simple is a question without parameters.
func simple[Out any](ask func(context.Context) (Out, error)) func(*http.Request) (Out, error) {
	return func(r *http.Request) (Out, error) { return ask(r.Context()) }
}

// post answers a question that is sent.
func post[In, Out any](s *Server, most int64, ask func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var out Out
		in, err := decode[In](w, r, most, state.ErrBadQuery)
		if err == nil {
			out, err = ask(r.Context(), in)
		}
		s.answer(w, out, err)
	}
}

// put passes on what is sent.
func put[In any](s *Server, most int64, bad error, apply func(context.Context, In) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		in, err := decode[In](w, r, most, bad)
		if err == nil {
			err = apply(r.Context(), in)
		}
		s.done(w, err)
	}
}

func (s *Server) state(r *http.Request) (engineapi.EngineState, error) {
	q := query{r: r}
	after, wait := q.number("after"), q.number("wait")
	if q.err != nil {
		return engineapi.EngineState{}, q.err
	}
	return s.engine.State(r.Context(), uint64(max(after, 0)), millis(wait))
}

func (s *Server) logs(r *http.Request) (rpc.LogChunk, error) {
	q := query{r: r}
	ask := rpc.LogAsk{
		Offset: q.number("offset"), Max: int(min(q.number("max"), math.MaxInt32)), Wait: millis(q.number("wait")),
		Since: ago(q.number("since")),
		Times: r.FormValue("times") != "", Previous: r.FormValue("previous") != "",
		Incarnation: int(q.number("incarnation")),
	}
	if q.err != nil {
		return rpc.LogChunk{}, q.err
	}
	return s.engine.Logs(r.Context(), r.FormValue("instance"), ask)
}

func (s *Server) demand(r *http.Request) (wire.Demand, error) {
	q := query{r: r}
	wait := q.number("wait")
	if q.err != nil {
		return wire.Demand{}, q.err
	}
	return s.engine.Demand(r.Context(), millis(wait))
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	page, err := s.engine.Metrics(r.Context())
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if _, err := w.Write(page); err != nil {
		s.log.Debug("answer the agent", "error", err)
	}
}

func (s *Server) deleteVolume(w http.ResponseWriter, r *http.Request) {
	ref := wire.VolumeRef{Namespace: r.FormValue("namespace"), Instance: r.FormValue("instance"),
		Name: r.FormValue("name")}
	s.done(w, s.engine.RemoveVolume(r.Context(), ref))
}

// done says that something was done, or what is wrong.
func (s *Server) done(w http.ResponseWriter, err error) {
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// answer sends v, or what is wrong.
func (s *Server) answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.log.Debug("answer the agent", "error", err)
	}
}

// refuse says what is wrong in the form of a problem.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	p := wire.Problem{Status: http.StatusInternalServerError, Code: "engine-failed",
		Title: "the engine could not do it", Detail: err.Error()}
	var known *wire.Problem
	switch {
	case errors.As(err, &known):
		p = *known
	case errors.Is(err, atomicfile.ErrTooLarge):
		p.Status, p.Code, p.Title = http.StatusRequestEntityTooLarge, "too-large", "the request is too large"
	case errors.Is(err, state.ErrBadOrders), errors.Is(err, state.ErrBadQuery):
		p.Status, p.Code, p.Title = http.StatusBadRequest, "bad-request", "the request can't be understood"
	case errors.Is(err, state.ErrNoInstance):
		p.Status, p.Code, p.Title = http.StatusNotFound, "no-instance", "no such instance on this worker"
	case errors.Is(err, state.ErrStopped):
		p.Status, p.Code, p.Title = http.StatusServiceUnavailable, "stopped", "the engine is ending"
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	if err := json.NewEncoder(w).Encode(&p); err != nil {
		s.log.Debug("answer the agent", "error", err)
	}
}

// query reads numbers and keeps the first error.
type query struct {
	r   *http.Request
	err error
}

// number returns a parameter, 0 if it is missing.
func (q *query) number(name string) int64 {
	s := q.r.FormValue(name)
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && q.err == nil {
		q.err = fmt.Errorf("%w: %s=%q is not a number", state.ErrBadQuery, name, s)
	}
	return n
}

// ago is a time of milliseconds in the past, however long.
func ago(n int64) time.Duration {
	const most = 1 << 40 // is thirty years
	return time.Duration(min(max(n, 0), most)) * time.Millisecond
}

// millis is a span given in milliseconds, bounded so that it can't overflow.
func millis(n int64) time.Duration {
	return time.Duration(min(max(n, 0), state.MaxWait.Milliseconds())) * time.Millisecond
}
