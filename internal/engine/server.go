package engine

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
	"github.com/verge-edge/verge/internal/engine/sessions"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of a conversation with the agent.
const (
	headerWithin = 10 * time.Second
	bodyWithin   = 30 * time.Second
	idleWithin   = 2 * time.Minute
	maxHeader    = 16 << 10
	closeWithin  = 2 * time.Second
	// maxMeasureBytes of a question what to measure.
	maxMeasureBytes = 64 << 10
)

// serve answers the agent on the socket at path until stop is called.
func (e *Engine) serve(path string) (stop func(), err error) {
	l, err := unixsock.Listen(path)
	if err != nil {
		return nil, err
	}
	srv := &http.Server{
		Handler:           e.handler(),
		ReadHeaderTimeout: headerWithin,
		IdleTimeout:       idleWithin,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(e.log.Handler(), slog.LevelWarn),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(accept.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
			e.kit.problems.Set("socket", err)
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

// handler is the engine's side of the messages in package wire.
func (e *Engine) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/orders", e.putOrders)
	mux.HandleFunc("PATCH /v1/orders", e.patchOrders)
	mux.HandleFunc("GET /v1/state", e.getState)
	mux.HandleFunc("GET /v1/logs", e.getLogs)
	mux.HandleFunc("GET /v1/entries", e.getEntries)
	mux.HandleFunc("GET /v1/metrics", e.getMetrics)
	mux.HandleFunc("GET /v1/top", e.getTop)
	mux.HandleFunc("GET /v1/demand", e.getDemand)
	mux.HandleFunc("GET /v1/route", e.getRoute)
	mux.HandleFunc("GET /v1/net", e.getNet)
	mux.HandleFunc("GET /v1/volumes", e.getVolumes)
	mux.HandleFunc("DELETE /v1/volumes", e.deleteVolume)
	mux.HandleFunc("PUT /v1/devices", e.putDevices)
	mux.HandleFunc("POST /v1/measure", e.postMeasure)
	mux.HandleFunc("POST /v1/exec", e.postExec)
	mux.HandleFunc("POST /v1/upgrade", e.postUpgrade)
	mux.HandleFunc("POST /v1/shutdown", e.postShutdown)
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

func (e *Engine) postExec(w http.ResponseWriter, r *http.Request) {
	b, err := body(w, r, sessions.MaxExecBytes)
	var q wire.ExecAsk
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	if err != nil {
		e.refuse(w, fmt.Errorf("%w: %w", state.ErrBadQuery, err))
		return
	}
	a, err := e.Exec(r.Context(), q)
	e.answer(w, a, err)
}

func (e *Engine) postMeasure(w http.ResponseWriter, r *http.Request) {
	b, err := body(w, r, maxMeasureBytes)
	var q wire.MeasureAsk
	if err == nil {
		err = json.Unmarshal(b, &q)
	}
	if err != nil {
		e.refuse(w, fmt.Errorf("%w: %w", state.ErrBadQuery, err))
		return
	}
	m, err := e.Measure(r.Context(), q)
	e.answer(w, m, err)
}

func (e *Engine) putOrders(w http.ResponseWriter, r *http.Request) { take(e, w, r, e.Apply) }

func (e *Engine) patchOrders(w http.ResponseWriter, r *http.Request) { take(e, w, r, e.Change) }

// take gives apply what was sent.
func take[T any](e *Engine, w http.ResponseWriter, r *http.Request, apply func(context.Context, T) error) {
	body, err := body(w, r, state.MaxOrderBytes)
	if err != nil {
		e.refuse(w, fmt.Errorf("%w: read them: %w", state.ErrBadOrders, err))
		return
	}
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		e.refuse(w, fmt.Errorf("%w: %w", state.ErrBadOrders, err))
		return
	}
	if err := apply(r.Context(), v); err != nil {
		e.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (e *Engine) getState(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	after, wait := q.number("after"), q.number("wait")
	if q.err != nil {
		e.refuse(w, q.err)
		return
	}
	s, err := e.State(r.Context(), uint64(max(after, 0)), millis(wait))
	e.answer(w, s, err)
}

func (e *Engine) getLogs(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	offset, limit, wait, since := q.number("offset"), q.number("max"), q.number("wait"), q.number("since")
	incarnation := q.number("incarnation")
	if q.err != nil {
		e.refuse(w, q.err)
		return
	}
	c, err := e.Logs(r.Context(), r.FormValue("instance"), wire.LogAsk{
		Offset: offset, Max: int(min(limit, logs.MaxLog)), Wait: millis(wait), Since: ago(since),
		Times: r.FormValue("times") != "", Previous: r.FormValue("previous") != "", Incarnation: int(incarnation),
	})
	e.answer(w, c, err)
}

func (e *Engine) getEntries(w http.ResponseWriter, r *http.Request) {
	entries, err := e.Entries(r.Context())
	e.answer(w, entries, err)
}

func (e *Engine) getTop(w http.ResponseWriter, r *http.Request) {
	top, err := e.Top(r.Context())
	e.answer(w, top, err)
}

func (e *Engine) getDemand(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	wait := q.number("wait")
	if q.err != nil {
		e.refuse(w, q.err)
		return
	}
	d, err := e.Demand(r.Context(), millis(wait))
	e.answer(w, d, err)
}

func (e *Engine) getRoute(w http.ResponseWriter, r *http.Request) {
	route, err := e.Route(r.Context(), r.FormValue("service"))
	e.answer(w, route, err)
}

func (e *Engine) getNet(w http.ResponseWriter, r *http.Request) {
	net, err := e.Net(r.Context())
	e.answer(w, net, err)
}

func (e *Engine) postShutdown(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	if e.spawn != nil {
		e.spawn(func(ctx context.Context) {
			if err := e.Shutdown(ctx); err != nil && !errors.Is(err, state.ErrStopped) {
				e.log.Error("shutdown", "error", err)
			}
		})
	}
	e.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
}

// answer sends v, or what is wrong.
func (e *Engine) answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		e.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		e.log.Debug("answer the agent", "error", err)
	}
}

// refuse says what is wrong in the form of a problem.
func (e *Engine) refuse(w http.ResponseWriter, err error) {
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
		e.log.Debug("answer the agent", "error", err)
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
