package local

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/proxy/h2client"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/wire"
)

// Ask sends a request to a port of an instance of this worker and reads the answer to
// its end: through the queue in front of it, as requests of clients go, and to no other.
// It is no demand, nor does what becomes of it say anything about the instance to those
// who route. Of req, the URL's path and query count.
func (s *Endpoints) Ask(id wire.InstanceID, port string, req *http.Request) (status int, err error) {
	var p Place
	if err := s.Enter(req.Context(), &p, id, port, time.Time{}); err != nil {
		return 0, err
	}
	p.Counted = false
	answered := false
	defer func() { p.Leave(answered) }()
	req.URL.Scheme, req.URL.Host = "http", p.Addr
	grpc := httpmsg.IsGRPC(req.Header)
	var res *http.Response
	if t := p.Endpoint.Transport(port, p.Addr, grpc); grpc {
		res, err = t.H2.Do(req, h2client.Hooks{})
	} else {
		res, err = t.H1.RoundTrip(req)
	}
	if err != nil {
		return 0, fmt.Errorf("ask %s: %w", id, err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return res.StatusCode, fmt.Errorf("read the answer of %s: %w", id, err)
	}
	answered = true
	if grpc && res.StatusCode == http.StatusOK {
		return res.StatusCode, called(id, res)
	}
	return res.StatusCode, nil
}

// called says how a call of gRPC ended: in the trailers, or in the head where there is
// nothing else.
func called(id wire.InstanceID, res *http.Response) error {
	at := res.Trailer
	if at.Get("Grpc-Status") == "" {
		at = res.Header
	}
	switch status := at.Get("Grpc-Status"); status {
	case "0":
		return nil
	case "":
		return fmt.Errorf("%s answered without a status of gRPC, as no server of gRPC does", id)
	default:
		return fmt.Errorf("%s answered with gRPC status %.3s: %.200s", id, status, at.Get("Grpc-Message"))
	}
}
