package message

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/http1/http1test"
)

// unusualHeads are for net/http to judge.
var unusualHeads = map[string]string{
	"HTTP/1.0":           "GET / HTTP/1.0\r\nHost: a\r\n\r\n",
	"HTTP/2":             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"HTTP/1.10":          "GET / HTTP/1.10\r\nHost: a\r\n\r\n",
	"two spaces":         "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
	"spaces in target":   "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
	"absolute form":      "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
	"asterisk":           "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
	"CONNECT":            "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
	"small method":       "get / HTTP/1.1\r\nHost: a\r\n\r\n",
	"an empty line":      "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"a broken escape":    "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
	"fragment":           "GET /#a HTTP/1.1\r\nHost: a\r\n\r\n",
	"beyond ASCII":       "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n",
	"no host":            "GET / HTTP/1.1\r\nX: a\r\n\r\n",
	"an empty host":      "GET / HTTP/1.1\r\nHost:\r\n\r\n",
	"a strange host":     "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
	"chunked":            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"another coding":     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
	"hidden coding":      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
	"the same length":    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
	"expect":             "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
	"upgrade":            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	"upgrade alone":      "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n",
	"TE":                 "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n",
	"trailer":            "GET / HTTP/1.1\r\nHost: a\r\nTrailer: X\r\n\r\n",
	"connection options": "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-A\r\n\r\n",
	"folded":             "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
	"many":               "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 150) + "\r\n",
}

var plainHeads = []string{
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET //x?a=%zz&b HTTP/1.1\r\nhost:a:80\r\nX-Empty:\r\nX-High: \xff\r\n\r\n",
	"POST /a%20b HTTP/1.1\r\nHost: [::1]:8080\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabc",
	"DELETE /a;b=c HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\nTraceparent: 00-ab\r\n\r\n",
	"PROPFIND /\"<>^`{|}\\ HTTP/1.1\r\nHost: a\r\n\r\n",
}

// verdictIn parses a head byte by byte as it might come, and at once: both must say
// the same.
func verdictIn(t *testing.T, r *Request, head string) Verdict {
	t.Helper()
	v := r.Parse([]byte(head))
	var slow Request
	for i := 1; i <= len(head); i++ {
		if s := slow.Parse([]byte(head[:i])); s != Incomplete {
			if s != v && v != Incomplete {
				t.Errorf("%q: %d at once, %d after %d bytes", head, v, s, i)
			}
			break
		}
	}
	return v
}

func TestRequests(t *testing.T) {
	var r Request
	for name, head := range http1test.Forbidden {
		if v := verdictIn(t, &r, head); v != Forbidden || r.Why == "" {
			t.Errorf("%s: verdict %d, %s", name, v, r.Why)
		}
	}
	for name, head := range unusualHeads {
		if v := verdictIn(t, &r, head); v != Unusual || r.Why == "" {
			t.Errorf("%s: verdict %d, %s", name, v, r.Why)
		}
	}
	for _, head := range plainHeads {
		if v := verdictIn(t, &r, head); v != Understood {
			t.Errorf("%q: verdict %d, %s", head, v, r.Why)
			continue
		}
		alike(t, &r, []byte(head))
	}
}

// alike: net/http reads the head as r does.
func alike(t testing.TB, r *Request, head []byte) {
	t.Helper()
	req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		t.Fatalf("accepted, and net/http says %v: %q", err, head)
	}
	sent := AppendRequest(nil, r, &Marks{})
	again, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(sent)))
	if err != nil {
		t.Fatalf("what goes on is wrong: %v: %q", err, sent)
	}
	for _, x := range []*http.Request{req, again} {
		n := x.ContentLength
		if len(x.TransferEncoding) > 0 || string(r.Method()) != x.Method || string(r.Target()) != x.RequestURI ||
			string(r.Host()) != x.Host || r.Length != n || x.ProtoMinor != 1 {
			t.Fatalf("read as %s %s at %s with %d, by net/http as %s %s at %s with %d %v: %q",
				r.Method(), r.Target(), r.Host(), r.Length, x.Method, x.RequestURI, x.Host, n, x.TransferEncoding, head)
		}
	}
	if req.Close != r.Close {
		t.Fatalf("close %v, by net/http %v: %q", r.Close, req.Close, head)
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		if again.Header.Get(name) != "" {
			t.Fatalf("%s goes on: %q", name, sent)
		}
	}
}

// FuzzRequest: what is accepted is read alike by net/http, and goes on as it was read.
func FuzzRequest(f *testing.F) {
	for _, heads := range []map[string]string{http1test.Forbidden, unusualHeads} {
		for _, h := range heads {
			f.Add([]byte(h))
		}
	}
	for _, h := range plainHeads {
		f.Add([]byte(h))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		whole := bytes.Clone(b)
		if r.Parse(b) != Understood {
			return
		}
		if !bytes.Equal(whole, b) {
			t.Fatal("the buffer was changed")
		}
		alike(t, &r, b)
	})
}

// FuzzResponse: what is accepted and goes on is read by net/http with the same status
// and framing, and has one framing alone.
func FuzzResponse(f *testing.F) {
	for _, h := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.0 404 No\nContent-Length: 0\n\n",
		"HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 304 x\r\nContent-Length: 5\r\nX: a\r\n b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close, x\r\nX: 1\r\n\r\n", "HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 2\r\n\r\nok",
	} {
		f.Add([]byte(h), false)
		f.Add([]byte(h), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, head bool) {
		var r Response
		n, err := r.Parse(b, head)
		if err != nil || n == 0 {
			return
		}
		method := "GET"
		if head {
			method = "HEAD"
		}
		sent := AppendResponse(nil, &r, nil, "", false)
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(sent)), &http.Request{Method: method})
		if err != nil {
			t.Fatalf("net/http says %v: %q", err, sent)
		}
		if res.StatusCode != r.Status {
			t.Fatalf("status %d, net/http says %d: %q", r.Status, res.StatusCode, sent)
		}
		framing := NoBody
		switch {
		case len(res.TransferEncoding) > 0:
			framing = Chunked
		case res.ContentLength > 0:
			framing = Sized
		case res.ContentLength < 0:
			framing = UntilDone
		}
		if !head && r.Body != framing && r.Status >= 200 && r.Status != 304 || r.Body == Sized && res.ContentLength != r.Length {
			t.Fatalf("framing %d %d, net/http says %d %d: %q", r.Body, r.Length, framing, res.ContentLength, sent)
		}
	})
}

// TestNothingIsAllocated for the heads of a common request.
func TestNothingIsAllocated(t *testing.T) {
	in := []byte("GET /index.html HTTP/1.1\r\nHost: example.org\r\nUser-Agent: some/1.0\r\nAccept: */*\r\n\r\n")
	back := []byte("HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n")
	var r Request
	var w Response
	m := &Marks{Client: []byte("10.1.1.1"), Proto: "http"}
	out := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		if r.Parse(in) != Understood {
			t.Fatal(r.Why)
		}
		out = AppendRequest(out[:0], &r, m)
		if n, err := w.Parse(back, false); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		out = AppendResponse(out[:0], &w, nil, "", false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestChunks of all shapes are followed to their end, however they are cut.
func TestChunks(t *testing.T) {
	for body, ok := range map[string]bool{
		"0\r\n\r\n": true, "3\r\nabc\r\n0\r\n\r\n": true, "A;x=y\r\n0123456789\r\n0\r\nX: y\r\nZ: w\r\n\r\n": true,
		"3\nabc\r\n": false, "3\r\nabcd": false, "-1\r\n": false, "g\r\n": false, "\r\n": false, "0x3\r\n": false, "ffffffffffffffff\r\n": false,
		"3\r\nabc\r\n0\r\n: y\r\n\r\n": false, "0\r\nX: \x00\r\n\r\n": false, "3;a\x00\r\n": false, "0\r\n\n": false,
	} {
		for step := 1; step <= len(body); step++ {
			var c Chunks
			var err error
			rest := body
			for rest != "" && err == nil {
				k := min(step, len(rest))
				var n int
				if n, err = c.Next([]byte(rest[:k])); err == nil && n < k {
					t.Fatalf("%q: only %d of %d", body, n, k)
				}
				rest = rest[k:]
			}
			if (err == nil && c.Done()) != ok {
				t.Errorf("%q in steps of %d: %v, state %d", body, step, err, c.state)
			}
		}
	}
	var c Chunks
	if n, err := c.Next([]byte("1\r\na\r\n0\r\n\r\nHTTP/1.1")); n != len("1\r\na\r\n0\r\n\r\n") || err != nil {
		t.Error(n, err)
	}
}

// Load reports in trailers are dropped where they are not for the client, whatever is
// beside them and however they come.
func TestQuietTrailers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\r\n": "\r\n",
		"A: b\r\nEndpoint-Load-Metrics: TEXT cpu_utilization=1\r\nC: d\r\n\r\n":                    "A: b\r\nC: d\r\n\r\n",
		"endpoint-load-metrics-bin: x\r\n\r\n":                                                     "\r\n",
		"Endpoint-Load-Metrics : x\r\nEndpoint-Load-Metricss: y\r\nENDPOINT-LOAD-METRICS:\r\n\r\n": "Endpoint-Load-Metricss: y\r\n\r\n",
	} {
		for step := 1; step <= len(in); step++ {
			body, got := "3\r\nabc\r\n0\r\n"+in, ""
			c := Chunks{Quiet: true}
			var tail []byte
			for rest := body; rest != ""; {
				part := rest[:min(step, len(rest))]
				rest = rest[len(part):]
				n, err := c.Next([]byte(part))
				if err != nil {
					t.Fatal(err)
				}
				got += part[:n]
				for _, b := range []byte(part[n:]) {
					if !c.Fields || !c.Step(b) {
						t.Fatalf("%q by %d: stopped in %d", in, step, c.state)
					}
					tail = append(tail, b)
				}
			}
			got += string(WithoutReports(tail))
			if !c.Done() || got != "3\r\nabc\r\n0\r\n"+want {
				t.Errorf("%q by %d: %q", in, step, got)
			}
			if strings.Contains(strings.ToLower(got), "endpoint-load-metrics:") {
				t.Errorf("%q is passed on", got)
			}
		}
	}
}

func BenchmarkHeads(b *testing.B) {
	in := []byte("GET /index.html HTTP/1.1\r\nHost: example.org\r\nUser-Agent: some/1.0\r\nAccept: */*\r\n\r\n")
	var r Request
	out := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if r.Parse(in) != Understood {
			b.Fatal(r.Why)
		}
		out = AppendRequest(out[:0], &r, &Marks{})
	}
	_ = fmt.Sprint(len(out))
}

// What a body is cannot change what is asked of a request whose body has been sent: the
// buffer of its head has been used for it.
func TestBodyInPlaceOfTheHead(t *testing.T) {
	var r Request
	b := []byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
	if v := r.Parse(b); v != Understood {
		t.Fatal(v, r.Why)
	}
	copy(b, "HEAD")
	if r.Head() || r.Idempotent() {
		t.Error("the body says that it is a request for a head alone")
	}
}
