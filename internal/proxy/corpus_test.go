package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-edge/verge/internal/wire"
)

// lenient are cases that the gateway accepts though nginx and HAProxy both refuse them, by
// the name of the case, each with the reason.
var lenient = map[string]string{}

func init() {
	lenient["target "+quotedName("/{id}"+strings.Repeat("x", 30000))] = "a head may have 64 KiB here"
}

// arrival is a request as the backend got it.
type arrival struct {
	method, target, body string
	head                 string // all of it
	whole                bool   // its body came to its end
}

// String is what both ways to an instance must agree on.
func (a arrival) String() string { return fmt.Sprintf("%s %.80q %.80q", a.method, a.target, a.body) }

// corpusBackend reads requests as strictly as one can, and notes what it got by the token
// that the case has put into it.
type corpusBackend struct {
	addr string

	mu      sync.Mutex
	got     map[string][]arrival // by token
	strange []string             // what was malformed, or of no case
}

var corpusToken = regexp.MustCompile(`c\d+x`)

func newCorpusBackend(t *testing.T) *corpusBackend {
	t.Helper()
	b := &corpusBackend{got: map[string][]arrival{}}
	b.addr = startInstance(t, "", "", b.serve).addr
	return b
}

func (b *corpusBackend) note(raw string, a arrival) {
	b.mu.Lock()
	defer b.mu.Unlock()
	token := corpusToken.FindString(raw)
	if token == "" {
		b.strange = append(b.strange, raw)
		return
	}
	b.got[token] = append(b.got[token], a)
}

func (b *corpusBackend) of(token string) []arrival {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got[token])
}

func (b *corpusBackend) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 256<<10)
	for {
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			head.WriteString(line)
			if err != nil {
				if head.Len() > 0 {
					b.note(head.String(), arrival{method: "half a head", head: head.String()})
				}
				return
			}
			if line == "\r\n" {
				break
			}
		}
		a, err := b.read(r, head.String())
		b.note(a.head+a.body, a)
		if err != nil {
			return
		}
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
		if a.method == "HEAD" {
			answer = strings.TrimSuffix(answer, "good")
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

var (
	corpusLine  = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/1\\.[01]$")
	corpusField = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \\t]*([^\\x00-\\x08\\x0a-\\x1f\\x7f]*)$")
)

// read reads the rest of a request. What is open to two readings is malformed.
func (b *corpusBackend) read(r *bufio.Reader, head string) (a arrival, err error) {
	a.head = head
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	line := corpusLine.FindStringSubmatch(lines[0])
	if line == nil {
		a.method = "malformed: " + lines[0]
		return a, errors.New("malformed")
	}
	a.method, a.target = line[1], line[2]
	length, chunked := -1, false
	for _, l := range lines[1:] {
		f := corpusField.FindStringSubmatch(l)
		if f == nil {
			a.method = "malformed: " + l
			return a, errors.New("malformed")
		}
		value := strings.TrimRight(f[2], " \t")
		switch strings.ToLower(f[1]) {
		case "content-length":
			n, err := strconv.ParseUint(value, 10, 31)
			if err != nil || length >= 0 || chunked {
				a.method = "malformed: " + l
				return a, errors.New("malformed")
			}
			length = int(n)
		case "transfer-encoding":
			if value != "chunked" || length >= 0 || chunked {
				a.method = "malformed: " + l
				return a, errors.New("malformed")
			}
			chunked = true
		}
	}
	var body []byte
	switch {
	case chunked:
		body, err = io.ReadAll(&corpusChunks{r: r})
	case length > 0:
		body = make([]byte, length)
		_, err = io.ReadFull(r, body)
	}
	a.body, a.whole = string(body), err == nil
	return a, err
}

// corpusChunks reads chunks without extensions.
type corpusChunks struct {
	r    *bufio.Reader
	left int
	done bool
}

// Read implements io.Reader.
func (c *corpusChunks) Read(p []byte) (int, error) {
	if c.done {
		return 0, io.EOF
	}
	if c.left == 0 {
		line, err := c.r.ReadString('\n')
		if err != nil {
			return 0, io.ErrUnexpectedEOF
		}
		n, err := strconv.ParseUint(strings.TrimSuffix(line, "\r\n"), 16, 31)
		if err != nil {
			return 0, err
		}
		if c.left = int(n); n == 0 {
			for line != "\r\n" { // trailers
				if line, err = c.r.ReadString('\n'); err != nil {
					return 0, io.ErrUnexpectedEOF
				}
			}
			c.done = true
			return 0, io.EOF
		}
	}
	n, err := c.r.Read(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 && err == nil {
		var end [2]byte
		if _, err = io.ReadFull(c.r, end[:]); err == nil && string(end[:]) != "\r\n" {
			err = errors.New("a chunk that is longer than its size")
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// corpusProxy is something between the client and a backend of its own.
type corpusProxy struct {
	name    string
	h1, h2  string // addresses
	backend *corpusBackend
}

// outcome of a case at a proxy.
type outcome struct {
	token    string
	statuses []int // of the answers, without interim ones
	closed   bool  // the server ended the connection
	h2       bool
	reset    bool // of HTTP/2: the stream or the connection ended with an error
	arrived  []arrival
}

// accepted says whether the request reached the backend as a whole.
func (o *outcome) accepted() bool {
	return slices.ContainsFunc(o.arrived, func(a arrival) bool { return a.whole && !strings.Contains(a.target, "end") })
}

// String is what both ways to an instance must agree on.
func (o *outcome) String() string {
	whole := slices.DeleteFunc(slices.Clone(o.arrived), func(a arrival) bool { return !a.whole })
	if o.h2 && len(whole) == 0 && (o.reset || len(o.statuses) > 0) {
		return "refused" // the end of the stream may cancelWaiters the status
	}
	return fmt.Sprint(o.statuses, " ", whole)
}

// send sends a case to the proxy, followed by a request that ends the connection, and
// notes what is answered.
func (p *corpusProxy) send(c *corpusCase, token string) *outcome {
	o := &outcome{token: token}
	conn, err := net.Dial("tcp", p.h1)
	if err != nil {
		return o
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // fails only on a closed connection
	text := c.text + "GET /{id}end HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(conn, strings.ReplaceAll(text, "{id}", token)) // it may be refused before all is there
	}()
	all, err := io.ReadAll(conn)
	o.closed = !errors.Is(err, os.ErrDeadlineExceeded)
	_ = conn.Close()
	<-written
	method := c.method
	later := strings.HasPrefix(c.name, "later: ")
	if later {
		method = http.MethodPost
	}
	for r := bufio.NewReader(bytes.NewReader(all)); ; {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return o
		}
		_, err = io.Copy(io.Discard, res.Body)
		if res.StatusCode < 200 {
			continue
		}
		o.statuses = append(o.statuses, res.StatusCode)
		if err != nil {
			return o
		}
		if method = http.MethodGet; later && len(o.statuses) == 1 {
			method = c.method
		}
	}
}

// sendH2 sends a case of HTTP/2.
func (p *corpusProxy) sendH2(c *corpusH2Case, token string) *outcome {
	o := &outcome{token: token, closed: true, h2: true}
	conn, err := net.Dial("tcp", p.h2)
	if err != nil {
		return o
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second)) // as above
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	fr := http2.NewFramer(&out, conn)
	fr.AllowIllegalWrites = true
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = fr.WriteSettings() // to memory
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for i := 0; i < len(c.fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: c.fields[i],
			Value: strings.ReplaceAll(c.fields[i+1], "{id}", token)}) // as above
	}
	_ = enc.WriteField(hpack.HeaderField{Name: "x-case", Value: token}) // as above
	_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: c.body == nil,
		EndHeaders: true})
	if c.body != nil {
		_ = fr.WriteData(1, true, c.body) // as above
	}
	if _, err := conn.Write(out.Bytes()); err != nil {
		o.reset = true
		return o
	}
	for {
		f, err := fr.ReadFrame()
		var stream http2.StreamError
		switch {
		case errors.As(err, &stream):
			o.reset = true
			return o
		case err != nil:
			o.closed, o.reset = !errors.Is(err, os.ErrDeadlineExceeded), true
			return o
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if n, err := strconv.Atoi(f.PseudoValue("status")); err == nil && n >= 200 {
				o.statuses = append(o.statuses, n)
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			o.reset = len(o.statuses) == 0
			return o
		}
		if h := f.Header(); h.StreamID == 1 && h.Flags.Has(http2.FlagDataEndStream) &&
			(h.Type == http2.FrameData || h.Type == http2.FrameHeaders) {
			return o
		}
	}
}

// corpusProxies are the gateway near and far from its instances, and what else is installed.
func corpusProxies(t *testing.T) (near, far *corpusProxy, others []*corpusProxy) {
	t.Helper()
	ca := newAuthority(t)
	gate := func(name string, away bool) *corpusProxy {
		a := newWorker(t, ca, name, nil)
		home := a
		if away {
			home = newWorker(t, ca, name+"-home", nil)
		}
		p := &corpusProxy{name: name, h1: a.GatewayAddr(), h2: a.GatewayAddr(), backend: newCorpusBackend(t)}
		home.engine.set("app.web.0", p.backend.addr, nil)
		rt := requestRoute("http", wire.RequestRules{}, home.endpoint("app.web.0"))
		rt.Ports = publishedAs("http", "a")
		a.SetRoutes([]wire.Route{rt})
		home.SetRoutes([]wire.Route{rt})
		return p
	}
	near, far = gate("near", false), gate("far", true)
	for _, name := range []string{"nginx", "haproxy"} {
		path, err := exec.LookPath(name)
		if err != nil {
			if os.Getenv("VERGE_CI_NO_SKIP") != "" {
				t.Errorf("%s is not installed", name)
			}
			t.Logf("SKIPPED: %s beside the gateway, as it is not installed", name)
			continue
		}
		p := &corpusProxy{name: name, backend: newCorpusBackend(t)}
		host := entryHost(t)
		free := func() string {
			ln, err := net.Listen("tcp", host+":0")
			must(t, err)
			must(t, ln.Close())
			return ln.Addr().String()
		}
		p.h1, p.h2 = free(), free()
		dir := t.TempDir()
		config := filepath.Join(dir, "config")
		args := []string{"-f", config, "-db"}
		text := fmt.Sprintf(`
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
  timeout http-request 5s
frontend corpus
  bind %s
  bind %s proto h2
  default_backend all
backend all
  server one %s
`, p.h1, p.h2, p.backend.addr)
		if name == "nginx" {
			args = []string{"-c", config, "-p", dir, "-e", filepath.Join(dir, "error.log")}
			text = fmt.Sprintf(`
daemon off;
master_process off;
pid %[1]s/pid;
events {}
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_header_timeout 5s;
  client_body_timeout 5s;
  upstream one { server %[4]s; keepalive 16; }
  server {
    listen %[2]s;
    listen %[3]s http2;
    location / {
      proxy_pass http://one;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
    }
  }
}
`, dir, p.h1, p.h2, p.backend.addr)
		}
		must(t, os.WriteFile(config, []byte(text), 0o600))
		cmd := exec.Command(path, args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		must(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait() // it is killed
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it may have ended
			<-ended
			if t.Failed() {
				t.Logf("%s: %s", name, said.Bytes())
			}
		})
		eventually(t, name+" listens", func() bool {
			c, err := net.Dial("tcp", p.h2)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
		others = append(others, p)
	}
	return near, far, others
}

// TestCorpus: each of a thousand requests, most of which are malformed in one way, is
// accepted and means the same to the backend, or is refused; near and far; and what the
// gateway accepts nginx or HAProxy accepts too.
func TestCorpus(t *testing.T) {
	near, far, others := corpusProxies(t)
	proxies := append([]*corpusProxy{near, far}, others...)
	cases, h2 := corpus(), corpusH2()
	if len(cases) < 1000 || len(h2) < 80 {
		t.Errorf("%d cases of HTTP/1 and %d of HTTP/2", len(cases), len(h2))
	}
	seen := map[string]bool{}
	for i := range h2 {
		c := &h2[i]
		cases = append(cases, corpusCase{name: "HTTP/2: " + c.name, must: c.must, method: c.method, target: c.target,
			body: string(c.body)})
	}
	outcomes := make([][]*outcome, len(cases))
	var all sync.WaitGroup
	busy := make(chan struct{}, 32)
	for i := range cases {
		if c := &cases[i]; seen[c.name] {
			t.Errorf("two cases are named %s", c.name)
		} else {
			seen[c.name] = true
		}
		outcomes[i] = make([]*outcome, len(proxies))
		for k, p := range proxies {
			busy <- struct{}{}
			all.Go(func() {
				defer func() { <-busy }()
				token := fmt.Sprintf("c%dx", i)
				if j := i - (len(cases) - len(h2)); j >= 0 {
					outcomes[i][k] = p.sendH2(&h2[j], token)
				} else {
					outcomes[i][k] = p.send(&cases[i], token)
				}
			})
		}
	}
	all.Wait()
	for i := range cases {
		for k, p := range proxies {
			outcomes[i][k].arrived = p.backend.of(outcomes[i][k].token)
		}
	}
	for _, p := range []*corpusProxy{near, far} {
		for _, s := range p.backend.strange {
			t.Errorf("%s: the backend got what no case has sent: %.200q", p.name, s)
		}
	}
	reasons := 0
	for i := range cases {
		c, of := &cases[i], outcomes[i]
		for k := range 2 {
			if what := c.wrong(of[k]); what != "" {
				t.Errorf("%s, %s: %s\n\t%.200q\n\t%v, closed %v\n\tthe backend got %v", c.name, proxies[k].name, what,
					c.text, of[k].statuses, of[k].closed, of[k].arrived)
			}
		}
		if of[0].String() != of[1].String() {
			t.Errorf("%s: near %v, far %v", c.name, of[0], of[1])
		}
		if len(others) == 2 && of[0].accepted() && !of[2].accepted() && !of[3].accepted() {
			if lenient[c.name] == "" {
				t.Errorf("%s: accepted, and by neither nginx (%v) nor HAProxy (%v); list the reason, or refuse it",
					c.name, of[2].statuses, of[3].statuses)
			}
			reasons++
		}
	}
	if len(others) == 2 && reasons != len(lenient) {
		t.Errorf("%d reasons are listed, and %d cases need one", len(lenient), reasons)
	}
	t.Logf("%d cases of HTTP/1, %d of HTTP/2, at %d proxies", len(cases)-len(h2), len(h2), len(proxies))
}

// wrong says what is wrong with an outcome at the gateway, "" if nothing is.
func (c *corpusCase) wrong(o *outcome) string {
	if !o.closed {
		return "nothing was answered in time"
	}
	h2 := strings.HasPrefix(c.name, "HTTP/2: ")
	later := strings.HasPrefix(c.name, "later: ")
	var got []arrival
	ends := 0
	for _, a := range o.arrived {
		switch {
		case strings.HasPrefix(a.method, "malformed") || a.method == "half a head":
			return "what the backend got is malformed"
		case strings.HasSuffix(a.target, "xend"):
			ends++
		case later && strings.HasSuffix(a.target, "xfirst"):
		case a.whole:
			got = append(got, a)
		}
		if c.absent != "" && strings.Contains(a.head, c.absent) {
			return "the backend got what it must not"
		}
	}
	statuses := o.statuses
	if later && len(statuses) > 0 {
		statuses = statuses[1:]
	}
	switch {
	case len(got) > 1 || ends > 1:
		return "the backend got more requests than were sent"
	case len(got) == 1:
		want := arrival{method: c.method, target: strings.ReplaceAll(c.target, "{id}", o.token), body: c.body}
		switch {
		case got[0].String() != want.String():
			return fmt.Sprintf("it means %v, want %v", got[0], want)
		case c.must == refused:
			return "it was accepted"
		case len(statuses) == 0 || statuses[0] != http.StatusOK:
			return "it was not answered as the backend did"
		}
		return ""
	case c.must == accepted:
		return "it was refused"
	case h2 && o.reset && len(statuses) == 0:
		return ""
	case len(statuses) == 0:
		return "it was neither accepted nor refused"
	}
	switch status := statuses[0]; {
	case status == http.StatusOK && c.method == http.MethodOptions && c.target == "*":
		return "" // by the gateway itself
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusExpectationFailed:
		return "" // it is well-formed, and the connection goes on
	case status < 400 || status > 499 && status != http.StatusNotImplemented &&
		status != http.StatusHTTPVersionNotSupported:
		return "it was not refused as a fault of the client"
	case !h2 && (ends > 0 || len(statuses) > 1):
		return "the connection goes on after a malformed request"
	}
	return ""
}
