package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/accept"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/logs"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
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
	Apply(ctx context.Context, o wire.EngineOrders) error
	Change(ctx context.Context, c wire.EngineChanges) error
	Plug(ctx context.Context, d wire.EngineDevices) error
}

// Reports are what there is.
type Reports interface {
	State(ctx context.Context, after uint64, wait time.Duration) (wire.EngineState, error)
	Logs(ctx context.Context, id wire.InstanceID, q wire.LogAsk) (wire.LogChunk, error)
	Entries(ctx context.Context) ([]wire.EntryView, error)
	Metrics(ctx context.Context) ([]byte, error)
	Top(ctx context.Context) (wire.WorkerTop, error)
	Demand(ctx context.Context, wait time.Duration) (wire.Demand, error)
	Route(ctx context.Context, key string) (wire.RouteReport, error)
	Net(ctx context.Context) (wire.NetReport, error)
	Measure(ctx context.Context, q wire.MeasureAsk) (wire.Measured, error)
}

// Volumes are the named volumes.
type Volumes interface {
	Volumes(ctx context.Context) ([]wire.VolumeView, error)
	RemoveVolume(ctx context.Context, r wire.VolumeRef) error
}

// Control is what is done beside instances, and with the engine.
type Control interface {
	Exec(ctx context.Context, q wire.ExecAsk) (wire.ExecAnswer, error)
	Upgrade(ctx context.Context, q wire.EngineUpgrade) (wire.EngineUpgraded, error)
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

// Serve answers on the socket at path until stop is called; failed is told an error that ends
// it before.
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
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/orders", s.putOrders)
	mux.HandleFunc("PATCH /v1/orders", s.patchOrders)
	mux.HandleFunc("GET /v1/state", s.getState)
	mux.HandleFunc("GET /v1/logs", s.getLogs)
	mux.HandleFunc("GET /v1/entries", s.getEntries)
	mux.HandleFunc("GET /v1/metrics", s.getMetrics)
	mux.HandleFunc("GET /v1/top", s.getTop)
	mux.HandleFunc("GET /v1/demand", s.getDemand)
	mux.HandleFunc("GET /v1/route", s.getRoute)
	mux.HandleFunc("GET /v1/net", s.getNet)
	mux.HandleFunc("GET /v1/volumes", s.getVolumes)
	mux.HandleFunc("DELETE /v1/volumes", s.deleteVolume)
	mux.HandleFunc("PUT /v1/devices", s.putDevices)
	mux.HandleFunc("POST /v1/measure", s.postMeasure)
	mux.HandleFunc("POST /v1/exec", s.postExec)
	mux.HandleFunc("POST /v1/upgrade", s.postUpgrade)
	mux.HandleFunc("POST /v1/shutdown", s.postShutdown)
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

// decode reads what was sent as a T.
func decode[T any](w http.ResponseWriter, r *http.Request, most int64) (v T, err error) {
	b, err := body(w, r, most)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", state.ErrBadQuery, err)
	}
	return v, err
}

func (s *Server) postExec(w http.ResponseWriter, r *http.Request) {
	q, err := decode[wire.ExecAsk](w, r, maxExecBytes)
	if err != nil {
		s.refuse(w, err)
		return
	}
	a, err := s.engine.Exec(r.Context(), q)
	s.answer(w, a, err)
}

func (s *Server) postMeasure(w http.ResponseWriter, r *http.Request) {
	q, err := decode[wire.MeasureAsk](w, r, maxMeasureBytes)
	if err != nil {
		s.refuse(w, err)
		return
	}
	m, err := s.engine.Measure(r.Context(), q)
	s.answer(w, m, err)
}

func (s *Server) putOrders(w http.ResponseWriter, r *http.Request) { take(s, w, r, s.engine.Apply) }

func (s *Server) patchOrders(w http.ResponseWriter, r *http.Request) { take(s, w, r, s.engine.Change) }

// take gives apply what was sent.
func take[T any](s *Server, w http.ResponseWriter, r *http.Request, apply func(context.Context, T) error) {
	body, err := body(w, r, state.MaxOrderBytes)
	if err != nil {
		s.refuse(w, fmt.Errorf("%w: read them: %w", state.ErrBadOrders, err))
		return
	}
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		s.refuse(w, fmt.Errorf("%w: %w", state.ErrBadOrders, err))
		return
	}
	if err := apply(r.Context(), v); err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) getState(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	after, wait := q.number("after"), q.number("wait")
	if q.err != nil {
		s.refuse(w, q.err)
		return
	}
	st, err := s.engine.State(r.Context(), uint64(max(after, 0)), millis(wait))
	s.answer(w, st, err)
}

func (s *Server) getLogs(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	offset, limit, wait, since := q.number("offset"), q.number("max"), q.number("wait"), q.number("since")
	incarnation := q.number("incarnation")
	if q.err != nil {
		s.refuse(w, q.err)
		return
	}
	c, err := s.engine.Logs(r.Context(), r.FormValue("instance"), wire.LogAsk{
		Offset: offset, Max: int(min(limit, logs.MaxLog)), Wait: millis(wait), Since: ago(since),
		Times: r.FormValue("times") != "", Previous: r.FormValue("previous") != "", Incarnation: int(incarnation),
	})
	s.answer(w, c, err)
}

func (s *Server) getEntries(w http.ResponseWriter, r *http.Request) {
	entries, err := s.engine.Entries(r.Context())
	s.answer(w, entries, err)
}

func (s *Server) getTop(w http.ResponseWriter, r *http.Request) {
	top, err := s.engine.Top(r.Context())
	s.answer(w, top, err)
}

func (s *Server) getDemand(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	wait := q.number("wait")
	if q.err != nil {
		s.refuse(w, q.err)
		return
	}
	d, err := s.engine.Demand(r.Context(), millis(wait))
	s.answer(w, d, err)
}

func (s *Server) getRoute(w http.ResponseWriter, r *http.Request) {
	route, err := s.engine.Route(r.Context(), r.FormValue("service"))
	s.answer(w, route, err)
}

func (s *Server) getNet(w http.ResponseWriter, r *http.Request) {
	net, err := s.engine.Net(r.Context())
	s.answer(w, net, err)
}

func (s *Server) postShutdown(w http.ResponseWriter, _ *http.Request) {
	s.engine.BeginShutdown()
	w.WriteHeader(http.StatusAccepted)
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
	p := wire.Problem{Status: http.StatusInternalServerError, Code: "engine-failed", Title: "the engine could not do it", Detail: err.Error()}
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

// number returns a parameter, 0 where there is none.
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

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) {
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

func (s *Server) putDevices(w http.ResponseWriter, r *http.Request) {
	d, err := decode[wire.EngineDevices](w, r, maxDevicesBytes)
	if err != nil {
		s.refuse(w, err)
		return
	}
	if err := s.engine.Plug(r.Context(), d); err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) getVolumes(w http.ResponseWriter, r *http.Request) {
	list, err := s.engine.Volumes(r.Context())
	s.answer(w, list, err)
}

func (s *Server) deleteVolume(w http.ResponseWriter, r *http.Request) {
	ref := wire.VolumeRef{Namespace: r.FormValue("namespace"), Instance: r.FormValue("instance"), Name: r.FormValue("name")}
	if err := s.engine.RemoveVolume(r.Context(), ref); err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) postUpgrade(w http.ResponseWriter, r *http.Request) {
	q, err := decode[wire.EngineUpgrade](w, r, maxUpgradeBytes)
	if err != nil {
		s.refuse(w, err)
		return
	}
	done, err := s.engine.Upgrade(r.Context(), q)
	s.answer(w, done, err)
}
