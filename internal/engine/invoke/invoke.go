package invoke

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Do sends a request to the service of an instance, whose order it is, by the way that all on this
// worker take: any instance of the service may answer it, and one that sleeps is woken. reserve
// returns the loopback address of each port of a service, by port name.
func Do(ctx context.Context, id wire.InstanceID, order *wire.Order, q *rpc.Invocation,
	reserve func(app, service string, ports []api.Port) (map[string]string, error)) (*rpc.Invoked, error) {
	if order.Spec == nil {
		return nil, fmt.Errorf("%w: %q", state.ErrNoInstance, id)
	}
	const remedy = "verge describe instance/"
	port := -1
	for i := range order.Spec.Ports {
		if p := &order.Spec.Ports[i]; p.ForRequests() && (q.Port == "" || state.PortName(p) == q.Port) {
			port = i
			break
		}
	}
	if port < 0 {
		return nil, wire.Problemf(http.StatusUnprocessableEntity, "no-http", remedy+id, "the service takes no requests",
			"%s.%s has no such port whose protocol is http", order.App, order.Service)
	}
	addrs, err := reserve(order.App, order.Service, order.Spec.Ports)
	if err != nil {
		return nil, fmt.Errorf("address of %s.%s on this worker: %w", order.App, order.Service, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.Hold())*time.Millisecond)
	defer cancel()
	req, err := invocation(ctx, addrs[state.PortName(&order.Spec.Ports[port])], q)
	if err != nil {
		return nil, wire.Problemf(http.StatusBadRequest, "bad-request", "see verge fn invoke --help",
			"that is no request", "%v", err)
	}
	if p := &order.Spec.Ports[port]; p.Ingress != nil && req.Host == "" {
		req.Host = p.Ingress.Host
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	var out rpc.Invoked
	if err == nil {
		defer resp.Body.Close() //nolint:errcheck // what is left of it nobody wants
		out.Status, out.Header = resp.StatusCode, resp.Header
		out.Body, err = io.ReadAll(io.LimitReader(resp.Body, rpc.MaxInvokeBytes+1))
	}
	switch {
	case err != nil && ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, wire.Problemf(http.StatusGatewayTimeout, "invoke-timeout", "ask again with a longer --timeout",
			"the service did not answer in time", "%s.%s had %s", order.App, order.Service,
			time.Duration(q.Hold())*time.Millisecond)
	case err != nil:
		return nil, wire.Problemf(http.StatusBadGateway, "invoke-failed", "verge logs "+id,
			"the service did not answer", "%s.%s: %v", order.App, order.Service, err)
	}
	if len(out.Body) > rpc.MaxInvokeBytes {
		out.Body, out.Cut = out.Body[:rpc.MaxInvokeBytes], true
	}
	return &out, nil
}

// invocation is the request that is meant.
func invocation(ctx context.Context, addr string, q *rpc.Invocation) (*http.Request, error) {
	method := http.MethodGet
	if len(q.Body) > 0 {
		method = http.MethodPost
	}
	path := cmp.Or(q.Path, "/")
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("the path %q does not begin with /", path)
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(q.Method, method), "http://"+addr+path, bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	req.Host = ""
	for name, values := range q.Header {
		for _, v := range values {
			if http.CanonicalHeaderKey(name) == "Host" {
				req.Host = v
				continue
			}
			req.Header.Add(name, v)
		}
	}
	return req, nil
}
