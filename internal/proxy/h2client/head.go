package h2client

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

// lower are the names of most headers, as HTTP/2 writes them.
var lower = map[string]string{}

// unique headers have another value in each request: in the table of what was sent before
// they would only push out the others.
var unique = map[string]bool{
	"Traceparent": true, "Verge-Timeout": true, "Grpc-Timeout": true, "Content-Length": true, "X-Request-Id": true,
}

// hop headers do not exist in HTTP/2 (RFC 9113, 8.2.2), or are said otherwise.
var hop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Transfer-Encoding": true, "Upgrade": true,
	"Host": true, "Content-Length": true, "Trailer": true,
}

func init() {
	for _, name := range []string{
		"Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Content-Encoding",
		"Content-Length",
		"Content-Type", "Cookie", "Forwarded", "Grpc-Accept-Encoding", "Grpc-Encoding", "Grpc-Timeout",
		"If-Modified-Since",
		"If-None-Match", "Origin", "Range", "Referer", "Te", "Traceparent", "Tracestate", "User-Agent", "Verge-Timeout",
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Prefix", "X-Forwarded-Proto", "X-Request-Id",
	} {
		lower[name] = strings.ToLower(name)
	}
}

// expects: the server is to say whether it wants the body.
func expects(h http.Header) bool {
	return httpguts.HeaderValuesContainsToken(h["Expect"], "100-continue")
}

// headLocked puts the head of a request into block.
func (c *conn) headLocked(req *http.Request, body bool) error {
	host, path := req.Host, req.URL.RequestURI()
	if host == "" {
		host = req.URL.Host
	}
	if !httpguts.ValidHostHeader(host) {
		return fmt.Errorf("the host %q is none", host)
	}
	if path != "*" && !strings.HasPrefix(path, "/") {
		return fmt.Errorf("the path %q does not begin with a slash", path)
	}
	if !httpguts.ValidHeaderFieldName(req.Method) {
		return fmt.Errorf("%q is no method", req.Method)
	}
	// Who is asked may pass it on in a request line of HTTP/1.1.
	if i := strings.IndexFunc(path, func(c rune) bool { return c <= ' ' || c > '~' || c == '#' }); i >= 0 {
		return fmt.Errorf("the path %q has a character that must be percent-encoded", path)
	}
	size := uint64(len(host)+len(path)+len(req.Method)) + 200
	for name, values := range req.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("%q is no name of a header", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("the value of %s has characters that no header has", name)
			}
			size += uint64(len(name) + len(v) + 32)
		}
	}
	if size > uint64(c.maxHead) {
		return errors.New("the head is larger than the server takes")
	}
	c.out.Head()
	c.out.Field(":authority", host, false)
	c.out.Field(":method", req.Method, false)
	c.out.Field(":path", path, false)
	c.out.Field(":scheme", "http", false)
	for name, values := range req.Header {
		if hop[name] || name == "User-Agent" && len(values) == 1 && values[0] == "" {
			continue
		}
		wire := wireName(name)
		for _, v := range values {
			if name == "Cookie" { // each for itself is found again more often (RFC 9113, 8.2.3)
				for part := range strings.SplitSeq(v, ";") {
					c.out.Field(wire, strings.TrimLeft(part, " "), false)
				}
				continue
			}
			c.out.Field(wire, v, unique[name])
		}
	}
	if len(req.Trailer) > 0 {
		names := make([]string, 0, len(req.Trailer))
		for name := range req.Trailer {
			names = append(names, wireName(name))
		}
		c.out.Field("trailer", strings.Join(names, ","), false)
	}
	switch n := req.ContentLength; {
	case body && n > 0:
		c.out.Field("content-length", strconv.FormatInt(n, 10), true)
	case !body && (req.Method == http.MethodPost || req.Method == http.MethodPut || req.Method == http.MethodPatch):
		c.out.Field("content-length", "0", false)
	}
	return nil
}

// trailerLocked puts trailers into block. Those that nobody may send are left out.
func (c *conn) trailerLocked(h http.Header) {
	c.out.Head()
	for name, values := range h {
		if !httpguts.ValidTrailerHeader(name) || hop[name] {
			continue
		}
		for _, v := range values {
			if httpguts.ValidHeaderFieldValue(v) {
				c.out.Field(wireName(name), v, false)
			}
		}
	}
}

func wireName(name string) string {
	if l, ok := lower[name]; ok {
		return l
	}
	return strings.ToLower(name)
}

// status of a head.
func status(f *http2.MetaHeadersFrame) (int, bool) {
	v := f.PseudoValue("status")
	code, err := strconv.ParseUint(v, 10, 16)
	return int(code), err == nil && len(v) == 3 && code >= 100 && len(f.PseudoFields()) == 1
}

// announced are the trailers that are to come.
func announced(lists []string) http.Header {
	t := http.Header{}
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); httpguts.ValidTrailerHeader(name) && len(t) < frames.MaxNames {
				t[name] = nil
			}
		}
	}
	return t
}
