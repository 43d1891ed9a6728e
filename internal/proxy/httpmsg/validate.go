package httpmsg

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

// HasBody says whether a body is to be passed on. Of a request of HTTP/2 without one a server knows by
// its length alone; taken for one of unknown length it would be sent in chunks if it were
// taken back just then, and who waits for the end of those does not see that it was.
func HasBody(req *http.Request) bool {
	return req.Body != nil && req.Body != http.NoBody && req.ContentLength != 0
}

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
	case !strings.HasPrefix(target, "/") &&
		(req.URL.Host == "" || req.URL.User != nil || req.URL.Scheme != "http" && req.URL.Scheme != "https"):
		return "the target is neither a path nor an absolute URI of http"
	default:
		for i := range len(target) {
			if c := target[i]; c <= ' ' || c > '~' || c == '#' {
				return "the target has the character " + strconv.QuoteToASCII(target[i:i+1]) +
					", which must be percent-encoded"
			}
		}
	}
	for i := range len(req.Host) {
		if !message.HostChar(req.Host[i]) {
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

// RefuseMalformed answers a malformed request with 400 and ends its connection if that
// speaks HTTP/1: what follows on it cannot be trusted. False: the request is well-formed.
func RefuseMalformed(w http.ResponseWriter, req *http.Request) bool {
	what := malformed(req)
	if what == "" && req.ProtoMajor == 2 && req.ContentLength == 0 && len(req.Header["Content-Length"]) > 0 &&
		!emptyBody(w, req) {
		what = "there is more of a body than content-length says"
	}
	if what != "" {
		FailMalformed(w, req, what)
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

// FailMalformed answers 400 and ends the connection if that speaks HTTP/1.
func FailMalformed(w http.ResponseWriter, req *http.Request, what string) {
	if req.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	Fail(w, req, http.StatusBadRequest, "malformed", "send the request as RFC 9110 and RFC 9112 or 9113 have it", what)
}

// RefuseMethod refuses the methods that are not passed on: false is all others. CONNECT
// would make a tunnel. TRACE would show a client what was added to its request.
func RefuseMethod(w http.ResponseWriter, req *http.Request) bool {
	switch req.Method {
	case http.MethodConnect:
		Fail(w, req, http.StatusMethodNotAllowed, "no-tunnel", "send the request itself", "CONNECT is not offered here")
	case http.MethodTrace:
		Fail(w, req, http.StatusMethodNotAllowed, "no-trace", "ask the instance itself, past the router",
			"TRACE is not passed on")
	default:
		return false
	}
	return true
}

// Idempotent methods may be sent twice (RFC 9110, 9.2.2).
func Idempotent(method string) bool {
	return slices.Contains([]string{
		http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete,
	}, method)
}
