package rest

import (
	"context"
	"io"
	"net/http"

	"github.com/verge-edge/verge/internal/wire"
)

// Metrics reads the page of metrics of the serving tier, or of one of its workers
// ("cluster/worker"), at most as many bytes as are asked for.
func (c *Client) Metrics(ctx context.Context, worker string, most int64) ([]byte, error) {
	path := "/metrics"
	if worker != "" {
		path = "/v1/workers/" + worker + "/metrics"
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := c.request(ctx, call{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/plain")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(err)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		return nil, c.transportError(err)
	case resp.StatusCode != http.StatusOK:
		return nil, c.problem(resp, data)
	case int64(len(data)) > most:
		return nil, wire.Problemf(0, "answer-too-large", "ask it yourself: "+path, "the page is too large", "%s has more than %d bytes", path, most)
	}
	return data, nil
}
