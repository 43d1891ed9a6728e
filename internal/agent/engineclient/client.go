package engineclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Client is an engine as its agent sees it: over a socket, or in the same process.
type Client interface {
	Orderer
	Viewer
	Operator
}

// Orderer takes orders and says what becomes of them.
type Orderer interface {
	// Apply replaces the engine's orders; they are on disk when it returns.
	Apply(ctx context.Context, o engineapi.EngineOrders) error
	// Change changes the routes of the orders; it is on disk when it returns. An error
	// may mean that it does not continue what is there: Apply does then.
	Change(ctx context.Context, c engineapi.EngineChanges) error
	// State is what changed after a sequence number, held up to wait for news.
	State(ctx context.Context, after uint64, wait time.Duration) (engineapi.EngineState, error)
}

// Viewer says what there is.
type Viewer interface {
	// Logs reads an instance's log.
	Logs(ctx context.Context, id string, q rpc.LogAsk) (rpc.LogChunk, error)
	// Entries are the addresses at which services are reached on this worker.
	Entries(ctx context.Context) ([]rpc.EntryView, error)
	// Metrics are the engine's figures, as obs.Page writes them.
	Metrics(ctx context.Context) ([]byte, error)
	// Top measures what instances use.
	Top(ctx context.Context) (rpc.WorkerTop, error)
	// Volumes are the named volumes of this worker.
	Volumes(ctx context.Context) ([]rpc.VolumeView, error)
	// Demand is what clients here asked for since it was asked last, held up to wait
	// until there is some.
	Demand(ctx context.Context, wait time.Duration) (wire.Demand, error)
}

// Operator does what somebody asks for.
type Operator interface {
	// Route is how a service ("<application>.<service>") is routed on this worker, Net
	// how it reaches others; both measure what they must.
	Route(ctx context.Context, key string) (rpc.RouteReport, error)
	Net(ctx context.Context) (rpc.NetReport, error)
	// Measure says how far others are.
	Measure(ctx context.Context, q rpc.MeasureAsk) (rpc.Measured, error)
	// RemoveVolume removes a named volume that nothing uses.
	RemoveVolume(ctx context.Context, r wire.VolumeRef) error
	// Exec takes one step of a session.
	Exec(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error)
}

// ErrNotThere: the engine is of a version that does not know the question.
var ErrNotThere = errors.New("the engine does not know that question")

// maxReply bounds what is read from an engine.
const maxReply = 64 << 20

// Remote is an engine behind the socket in a worker's data directory.
type Remote struct{ http *http.Client }

var _ Client = (*Remote)(nil)

// NewRemote connects when it is first used.
func NewRemote(dir string) *Remote {
	path := filepath.Join(dir, engineapi.EngineSocket)
	return &Remote{http: &http.Client{Transport: &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return unixsock.Dial(ctx, path) },
		MaxIdleConns:    2,
		IdleConnTimeout: time.Minute,
	}}}
}

// Close gives the connections back.
func (r *Remote) Close() { r.http.CloseIdleConnections() }

// Apply implements Client.
func (r *Remote) Apply(ctx context.Context, o engineapi.EngineOrders) error {
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encoding the orders: %w", err)
	}
	return r.do(ctx, http.MethodPut, "/v1/orders", b, nil)
}

// Change implements Client.
func (r *Remote) Change(ctx context.Context, c engineapi.EngineChanges) error {
	b, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding changes of the orders: %w", err)
	}
	return r.do(ctx, http.MethodPatch, "/v1/orders", b, nil)
}

// Plug lets instances have devices that have been added.
func (r *Remote) Plug(ctx context.Context, d engineapi.EngineDevices) error {
	b, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encoding devices: %w", err)
	}
	return r.do(ctx, http.MethodPut, "/v1/devices", b, nil)
}

// State implements Client.
func (r *Remote) State(ctx context.Context, after uint64, wait time.Duration) (s engineapi.EngineState, err error) {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}, "wait": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	err = r.do(ctx, http.MethodGet, "/v1/state?"+q.Encode(), nil, &s)
	return s, err
}

// Logs implements Client.
func (r *Remote) Logs(ctx context.Context, id string, ask rpc.LogAsk) (c rpc.LogChunk, err error) {
	q := url.Values{
		"instance": {id}, "offset": {strconv.FormatInt(ask.Offset, 10)}, "max": {strconv.Itoa(ask.Max)},
		"wait": {strconv.FormatInt(ask.Wait.Milliseconds(), 10)},
	}
	if ask.Since > 0 {
		q.Set("since", strconv.FormatInt(ask.Since.Milliseconds(), 10))
	}
	if ask.Times {
		q.Set("times", "1")
	}
	if ask.Previous {
		q.Set("previous", "1")
	}
	if ask.Incarnation > 0 {
		q.Set("incarnation", strconv.Itoa(ask.Incarnation))
	}
	err = r.do(ctx, http.MethodGet, "/v1/logs?"+q.Encode(), nil, &c)
	return c, err
}

// Entries implements Client.
func (r *Remote) Entries(ctx context.Context) (list []rpc.EntryView, err error) {
	err = r.do(ctx, http.MethodGet, "/v1/entries", nil, &list)
	return list, err
}

// Metrics implements Client.
func (r *Remote) Metrics(ctx context.Context) ([]byte, error) {
	return r.raw(ctx, http.MethodGet, "/v1/metrics", nil)
}

// Route implements Client.
func (r *Remote) Route(ctx context.Context, key string) (out rpc.RouteReport, err error) {
	err = r.do(ctx, http.MethodGet, "/v1/route?"+url.Values{"service": {key}}.Encode(), nil, &out)
	return out, err
}

// Net implements Client.
func (r *Remote) Net(ctx context.Context) (out rpc.NetReport, err error) {
	err = r.do(ctx, http.MethodGet, "/v1/net", nil, &out)
	return out, err
}

// Demand implements Client.
func (r *Remote) Demand(ctx context.Context, wait time.Duration) (d wire.Demand, err error) {
	q := url.Values{"wait": {strconv.FormatInt(wait.Milliseconds(), 10)}}
	err = r.do(ctx, http.MethodGet, "/v1/demand?"+q.Encode(), nil, &d)
	return d, err
}

// Top implements Client.
func (r *Remote) Top(ctx context.Context) (top rpc.WorkerTop, err error) {
	err = r.do(ctx, http.MethodGet, "/v1/top", nil, &top)
	return top, err
}

// Volumes implements Client.
func (r *Remote) Volumes(ctx context.Context) (list []rpc.VolumeView, err error) {
	err = r.do(ctx, http.MethodGet, "/v1/volumes", nil, &list)
	return list, err
}

// RemoveVolume implements Client.
func (r *Remote) RemoveVolume(ctx context.Context, v wire.VolumeRef) error {
	q := url.Values{"namespace": {v.Namespace}, "instance": {v.Instance}, "name": {v.Name}}
	return r.do(ctx, http.MethodDelete, "/v1/volumes?"+q.Encode(), nil, nil)
}

// Exec implements Client.
func (r *Remote) Exec(ctx context.Context, q rpc.ExecAsk) (a rpc.ExecAnswer, err error) {
	b, err := json.Marshal(q)
	if err != nil {
		return a, fmt.Errorf("encoding a step of a session: %w", err)
	}
	err = r.do(ctx, http.MethodPost, "/v1/exec", b, &a)
	return a, err
}

// Measure implements Client.
func (r *Remote) Measure(ctx context.Context, q rpc.MeasureAsk) (m rpc.Measured, err error) {
	b, err := json.Marshal(q)
	if err != nil {
		return m, fmt.Errorf("encoding what is to be measured: %w", err)
	}
	err = r.do(ctx, http.MethodPost, "/v1/measure", b, &m)
	return m, err
}

// Upgrade lets the engine hand over to one of another program.
func (r *Remote) Upgrade(ctx context.Context, q engineapi.EngineUpgrade) (done engineapi.EngineUpgraded, err error) {
	b, err := json.Marshal(q)
	if err != nil {
		return done, fmt.Errorf("encoding an upgrade: %w", err)
	}
	err = r.do(ctx, http.MethodPost, "/v1/upgrade", b, &done)
	return done, err
}

// Shutdown stops every instance by its stop rule, and then the engine.
func (r *Remote) Shutdown(ctx context.Context) error {
	return r.do(ctx, http.MethodPost, "/v1/shutdown", nil, nil)
}

// do asks the engine and decodes its answer into out, where that is not nil.
func (r *Remote) do(ctx context.Context, method, path string, body []byte, out any) error {
	data, err := r.raw(ctx, method, path, body)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decoding the engine's answer to %s: %w", path, err)
	}
	return nil
}

func (r *Remote) raw(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the engine does not answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("reading the engine's answer: %w", err)
	}
	if resp.StatusCode >= 300 {
		var p wire.Problem
		if json.Unmarshal(data, &p) == nil && p.Title != "" {
			p.Status = resp.StatusCode
			return nil, &p
		}
		if resp.StatusCode == http.StatusNotFound {
			return nil, fmt.Errorf("%w: %s", ErrNotThere, req.URL.Path)
		}
		return nil, fmt.Errorf("the engine refused %s: %s", req.URL.Path, bytes.TrimSpace(data[:min(len(data), 500)]))
	}
	return data, nil
}
