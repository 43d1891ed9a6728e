package forward

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/wire"
)

// lingering is how long the server reads the rest of a body, 256 KiB at most: a client whose
// connection is closed while it sends may lose its answer.
const lingering = 5 * time.Second

var (
	errLargeBody = errors.New("the body is larger than max_body allows")
	errSlowBody  = errors.New("the client sends its body too slowly")
)

// boundedBody is the body of a request as far as its ingress allows it.
type boundedBody struct {
	io.ReadCloser
	left    int64         // bytes that may come; -1: any number
	timeout time.Duration // with a client that sends nothing; 0: for ever
	control *http.ResponseController
	broken  atomic.Pointer[wire.Problem] // what the client did
	ended   atomic.Bool                  // all of it was read
}

// Bounded applies the bounds of an ingress to a request; a request without a body has none (nil).
// ok is false if it was already answered.
func Bounded(w http.ResponseWriter, req *http.Request, i *api.Ingress) (_ http.ResponseWriter, _ *http.Request,
	_ *BodyAnswer, ok bool) {
	if !httpmsg.HasBody(req) {
		return w, req, nil, true
	}
	b := &boundedBody{ReadCloser: req.Body, left: -1, control: http.NewResponseController(w),
		timeout: i.BodyTimeout.Std()}
	if b.timeout == 0 && (req.ContentLength >= 0 || req.ProtoMajor == 1) {
		b.timeout = api.DefaultBodyTimeout.Std()
	}
	if i.MaxBody > 0 {
		if req.ContentLength > int64(i.MaxBody) {
			_ = b.control.SetReadDeadline(time.Now().Add(lingering)) // see finish
			httpmsg.Refuse(w, req, tooLarge(i))
			return nil, nil, nil, false
		}
		b.left = int64(i.MaxBody)
	}
	out := *req
	out.Body = &limitedBody{boundedBody: b, ingress: i}
	a := &BodyAnswer{ResponseWriter: w, req: req, body: b}
	return a, &out, a, true
}

func tooLarge(i *api.Ingress) *wire.Problem {
	return wire.Problemf(http.StatusRequestEntityTooLarge, "body-too-large",
		"send less at once, or raise max_body of the ingress",
		"the body is too large", "at most %s are taken", i.MaxBody)
}

// limitedBody is a boundedBody that knows its ingress.
type limitedBody struct {
	*boundedBody
	ingress *api.Ingress
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		// It may be over: one byte more says so.
		p = p[:min(1, len(p))]
	} else if b.left > 0 {
		p = p[:min(b.left, int64(len(p)))]
	}
	if b.timeout > 0 {
		_ = b.control.SetReadDeadline(time.Now().Add(b.timeout)) // a stream that is over says so when it is read
	}
	n, err := b.ReadCloser.Read(p)
	if b.timeout > 0 {
		// Streams of HTTP/2 end with their deadline, whether somebody reads or not.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	switch {
	case err != nil && errors.Is(err, os.ErrDeadlineExceeded):
		b.broken.CompareAndSwap(nil, httpmsg.SlowBody(b.timeout))
		return n, errSlowBody
	case b.left == 0 && n > 0:
		b.broken.CompareAndSwap(nil, tooLarge(b.ingress))
		return 0, errLargeBody
	case b.left > 0:
		b.left -= int64(n)
	}
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// BodyAnswer says what a client did wrong with its body in place of what an answer
// without the whole of it would be.
type BodyAnswer struct {
	http.ResponseWriter
	req   *http.Request
	body  *boundedBody
	begun bool
	quiet bool // the answer is ours
}

// Unwrap is for http.ResponseController.
func (a *BodyAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *BodyAnswer) WriteHeader(status int) {
	if a.begun {
		return
	}
	p := a.body.broken.Load()
	if a.begun = status >= http.StatusOK || status == http.StatusSwitchingProtocols; !a.begun || p == nil ||
		status < http.StatusBadRequest {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.quiet = true
	clear(a.Header())
	if p.Status == http.StatusRequestTimeout {
		a.Header().Set("Connection", "close") // nothing more is read
	} else {
		_ = a.body.control.SetReadDeadline(time.Now().Add(lingering)) // see finish
	}
	httpmsg.Refuse(a.ResponseWriter, a.req, p)
}

// Finish is called when the request is over; nil has nothing to do. The server reads
// some of what is left of the body, so that the connection can be used again, and a
// client that sends nothing would keep it waiting.
func (a *BodyAnswer) Finish() {
	if a == nil || a.body.ended.Load() {
		return
	}
	timeout := lingering
	if p := a.body.broken.Load(); p != nil {
		if !a.begun {
			// To who passes it on this is a client that has left.
			if what := recover(); what != nil && what != http.ErrAbortHandler { //nolint:errorlint // it is that value
				panic(what)
			}
			a.WriteHeader(p.Status)
		}
		if p.Status == http.StatusRequestTimeout {
			timeout = -time.Second // it has had its time
		}
	}
	_ = a.body.control.SetReadDeadline(time.Now().Add(timeout)) // the connection may be gone
}

// Write implements http.ResponseWriter.
func (a *BodyAnswer) Write(b []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	if a.quiet {
		return len(b), nil
	}
	return a.ResponseWriter.Write(b)
}
