package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/http1"
)

// malformed says what is wrong with a request that the server has accepted, "" if nothing
// is. The server of net/http leaves some of it open, of HTTP/2 above all: there a path or a
// method may have spaces, which would end it in a request line of HTTP/1.1.
func malformed(req *http.Request) string {
	if !httpguts.ValidHeaderFieldName(req.Method) {
		return "the method has characters that no method has"
	}
	h2 := req.ProtoMajor == 2
	switch target := req.RequestURI; {
	case target == "*":
		if req.Method != http.MethodOptions {
			return "the target * is for OPTIONS only"
		}
	case h2 && !strings.HasPrefix(target, "/"):
		return "the path does not begin with a slash"
	case !strings.HasPrefix(target, "/") && (req.URL.Host == "" || req.URL.User != nil || req.URL.Scheme != "http" && req.URL.Scheme != "https"):
		return "the target is neither a path nor an absolute URI of http"
	default:
		for i := range len(target) {
			if c := target[i]; c <= ' ' || c > '~' || c == '#' {
				return "the target has the character " + strconv.QuoteToASCII(target[i:i+1]) + ", which must be percent-encoded"
			}
		}
	}
	for i := range len(req.Host) {
		if !http1.HostChar(req.Host[i]) {
			return "the host has the character " + strconv.QuoteToASCII(req.Host[i:i+1])
		}
	}
	if !validPort(req.Host) {
		return "the port of the host is no number"
	}
	if !h2 {
		return ""
	}
	for _, host := range req.Header["Host"] {
		if host != req.Host {
			return "the field host differs from :authority"
		}
	}
	for _, length := range req.Header["Content-Length"] {
		n, err := strconv.ParseUint(length, 10, 63)
		if err != nil || length[0] == '+' || int64(n) != req.ContentLength {
			return "content-length is no number, is there twice, or differs from the body"
		}
	}
	return ""
}

// validPort says whether what follows the name or address of a host is nothing, or a port.
func validPort(host string) bool {
	if strings.HasPrefix(host, "[") {
		_, host, _ = strings.Cut(host, "]")
	}
	_, port, _ := strings.Cut(host, ":")
	return strings.Trim(port, "0123456789") == ""
}

// refuseMalformed answers a malformed request with 400 and ends its connection if that
// speaks HTTP/1: what follows on it cannot be trusted. False: the request is well-formed.
func refuseMalformed(w http.ResponseWriter, req *http.Request) bool {
	what := malformed(req)
	if what == "" && req.ProtoMajor == 2 && req.ContentLength == 0 && len(req.Header["Content-Length"]) > 0 && !emptyBody(w, req) {
		what = "there is more of a body than content-length says"
	}
	if what != "" {
		failMalformed(w, req, what)
	}
	return what != ""
}

// emptyBody says whether the body of a request that announces an empty one ends at once. It is
// passed on as a request without a body, and what came of one would be lost.
func emptyBody(w http.ResponseWriter, req *http.Request) bool {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(api.DefaultBodyTimeout.Std())) // a stream that is over says so when it is read
	n, err := req.Body.Read(make([]byte, 1))
	_ = rc.SetReadDeadline(time.Time{}) // as above
	return n == 0 && errors.Is(err, io.EOF)
}

func failMalformed(w http.ResponseWriter, req *http.Request, what string) {
	if req.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	fail(w, req, http.StatusBadRequest, "malformed", "send the request as RFC 9110 and RFC 9112 or 9113 have it", what)
}

// refuseMethod refuses the methods that are not passed on: false is all others. CONNECT
// would make a tunnel. TRACE would show a client what was added to its request.
func refuseMethod(w http.ResponseWriter, req *http.Request) bool {
	switch req.Method {
	case http.MethodConnect:
		fail(w, req, http.StatusMethodNotAllowed, "no-tunnel", "send the request itself", "CONNECT is not offered here")
	case http.MethodTrace:
		fail(w, req, http.StatusMethodNotAllowed, "no-trace", "ask the instance itself, past the router", "TRACE is not passed on")
	default:
		return false
	}
	return true
}

// malformedBody says whether a body ended because its framing is malformed, and not because
// its client left or took too long. net/http has no type for it, so all others are excluded.
func malformedBody(err error) bool {
	var network net.Error
	for _, other := range []error{
		io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, net.ErrClosed, io.ErrClosedPipe, http.ErrBodyReadAfterClose,
		context.Canceled, context.DeadlineExceeded, errLargeBody, errSlowBody, errNextTry,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return err != nil && !errors.As(err, &network)
}
