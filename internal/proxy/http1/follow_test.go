package http1

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/http1/http1test"
)

// followedIn gives text to a follower in pieces of this size, and returns what goes on to
// the server.
func followedIn(text string, size int) string {
	f := &follower{}
	var out strings.Builder
	for len(text) > 0 {
		piece := text[:min(size, len(text))]
		text = text[len(piece):]
		n, instead := f.pass([]byte(piece))
		out.WriteString(piece[:n])
		out.Write(instead)
		if instead != nil {
			break
		}
	}
	return out.String()
}

const firstOfTwo = "POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n"

// served are the bodies of the requests that the server of net/http would serve.
func served(text string) (bodies []string) {
	r := bufio.NewReader(strings.NewReader(text))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return bodies
		}
		for name := range req.Header {
			if strings.ContainsAny(name+req.Header.Get(name), "\x00\r") {
				return bodies // as the server does
			}
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return bodies
		}
		bodies = append(bodies, string(body))
	}
}

// TestFollower: whatever Serve forbids in the first request of a connection is not served
// later either, however the bytes come, and all else passes as it is.
func TestFollower(t *testing.T) {
	const last = "GET /last HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, text := range map[string]string{
		"a head":           "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"an empty line":    "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"a length":         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /",
		"chunks":           "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nGET\r\n2\r\n /\r\n0\r\n\r\n",
		"HTTP/1.0":         "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
		"a fold":           "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
		"many fields":      "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 150) + "\r\n",
		"a body after all": "POST / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 150) + "Content-Length: 3\r\n\r\n\r\n\r",
	} {
		all := firstOfTwo + text + last
		for size := 1; size <= len(all); size++ {
			if got := followedIn(all, size); got != all {
				t.Fatalf("%s, in pieces of %d: %q became %q", name, size, all, got)
			}
		}
	}
	for name, text := range http1test.Forbidden {
		all := firstOfTwo + text + last
		for size := 1; size <= len(all); size++ {
			if got := served(followedIn(all, size)); len(got) != 1 || got[0] != "hello" {
				t.Fatalf("%s, in pieces of %d: %q is served as %q", name, size, all, got)
			}
		}
	}
	for _, chunks := range []string{
		"x\r\n", "5\nhello\r\n0\r\n\r\n", "5;\x00\r\nhello\r\n0\r\n\r\n", "5\r\r\nhello\r\n0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello\rX0\r\n\r\n", "0000000000000005\r\nhello\r\n0\r\n\r\n",
		"ffffffffffffffff\r\nhello", "5\r\nhello\r\n0\r\n X: y\r\n\r\n", "5\r\nhello\r\n0\r\nX: y\x00\r\n\r\n", "5\r\nhello\r\n0\r\nX: y\rz\r\n\r\n", "5\r\nhello\r\n0\r\n: y\r\n\r\n", "5\r\nhello\r\n0\n\n",
	} {
		all := firstOfTwo + "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + last
		for size := 1; size <= len(all); size++ {
			if got := served(followedIn(all, size)); len(got) != 1 {
				t.Fatalf("%q, in pieces of %d, is served as %q", chunks, size, got)
			}
		}
	}
}
