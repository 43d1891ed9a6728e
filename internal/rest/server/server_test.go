package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func httpsClient(t *testing.T, e client.Context) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(e.CA))
	conf := &tls.Config{RootCAs: pool}
	if e.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(e.Cert), []byte(e.Key))
		if err != nil {
			t.Fatal(err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	tr := &http.Transport{TLSClientConfig: conf}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// ask sends a raw request and decodes a problem, if it is one.
func ask(t *testing.T, e client.Context, method, path string, body io.Reader, header ...string) (*http.Response, string,
	wire.Problem) {
	t.Helper()
	req, err := http.NewRequest(method, e.Server+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := httpsClient(t, e).Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	data, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	var p wire.Problem
	if resp.Header.Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal(data, &p); err != nil {
			t.Fatalf("problem %q: %v", data, err)
		}
	}
	return resp, string(data), p
}

func TestWhoMayAsk(t *testing.T) {
	_, a, admin := resttest.Serve(t, &resttest.Fake{UserData: resttest.UserData{Bearer: "good"}}, nil)
	nobody := a.Context(t, "", strings.TrimPrefix(admin.Server, "https://"))
	worker := a.Context(t, "worker", strings.TrimPrefix(admin.Server, "https://"))
	for _, c := range []struct {
		name   string
		entry  client.Context
		path   string
		bearer string
		status int
		code   string
	}{
		{"admin certificate", admin, "/v1/status", "", 200, ""},
		{"no credentials", nobody, "/v1/status", "", 401, "unauthenticated"},
		{"other certificate", worker, "/v1/status", "", 403, "not-admin"},
		{"good token", nobody, "/v1/status", "Bearer good", 200, ""},
		{"bad token", nobody, "/v1/status", "Bearer bad", 401, "token-refused"},
		{"bad token, good certificate", admin, "/v1/status", "Bearer bad", 401, "token-refused"},
		{"basic", nobody, "/v1/status", "Basic Z29vZA==", 401, "unauthenticated"},
		{"live", nobody, "/livez", "", 200, ""},
		{"ready", nobody, "/readyz", "", 200, ""},
		{"openapi", nobody, "/openapi.json", "", 200, ""},
		{"unknown path", nobody, "/v1/nothing", "", 401, "unauthenticated"},
		{"escaped open path", nobody, "/v1%2fjoin/../status", "", 401, "unauthenticated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var header []string
			if c.bearer != "" {
				header = []string{"Authorization", c.bearer}
			}
			resp, text, p := ask(t, c.entry, "GET", c.path, nil, header...)
			if resp.StatusCode != c.status || p.Code != c.code {
				t.Fatalf("got %d %q (%s), want %d %q", resp.StatusCode, p.Code, text, c.status, c.code)
			}
			if c.code != "" && (p.Remedy == "" || p.Detail == "") {
				t.Errorf("a problem without detail or remedy: %s", text)
			}
		})
	}
}

func TestWrongAuthority(t *testing.T) {
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	other := resttest.NewAuthority(t).Context(t, "admin", strings.TrimPrefix(admin.Server, "https://"))

	// The client does not trust the server.
	c := newClient(t, other)
	_, err := c.System.Status(t.Context())
	wantProblem(t, err, client.CodeTLS, "not from the authority")

	// The server does not trust the client.
	other.CA = admin.CA
	_, err = newClient(t, other).System.Status(t.Context())
	wantProblem(t, err, client.CodeTLS, "refuses us")
}

func newClient(t *testing.T, e client.Context) *client.Client {
	t.Helper()
	c, err := client.New(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func wantProblem(t *testing.T, err error, code, text string) {
	t.Helper()
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != code || !strings.Contains(err.Error(), text) || p.Remedy == "" {
		t.Fatalf("got %v, want problem %q with %q and a remedy", err, code, text)
	}
}

func TestBodyLimits(t *testing.T) {
	f := &resttest.Fake{}
	_, _, admin := resttest.Serve(t, f, nil)
	for _, c := range []struct {
		name, method, path string
		size, status       int
	}{
		{"apply", "PUT", "/v1/applications/-", 2 << 20, 413},
		{"largest apply", "PUT", "/v1/applications/-", api.MaxDescriptorBytes, 200},
		{"join", "POST", "/v1/join", 17 << 10, 413},
		{"token", "POST", "/v1/tokens", 2 << 20, 413},
		{"exec", "POST", "/v1/instances/a.b.0/exec", 2 << 20, 413},
		{"exec input", "POST", "/v1/exec/x.a.b.c.d.0/input", 2 << 20, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, text, p := ask(t, admin, c.method, c.path, bytes.NewReader(make([]byte, c.size)), "Content-Type",
				"application/yaml")
			if resp.StatusCode != c.status {
				t.Fatalf("got %d: %.200s", resp.StatusCode, text)
			}
			if c.status == 413 && p.Code != "body-too-large" {
				t.Errorf("code %q", p.Code)
			}
		})
	}
	if len(f.Applied) != 1 {
		t.Errorf("the backend got %d descriptors, want 1", len(f.Applied))
	}
}

// No operation reads more than it says, whatever it is.
func TestEveryBodyIsBounded(t *testing.T) {
	f := &resttest.Fake{}
	_, _, admin := resttest.Serve(t, f, nil)
	n := 0
	for _, r := range resttest.Requests(t, resttest.OpenAPI(t, admin), here.Fill) {
		if r.ContentType == "" {
			continue
		}
		n++
		resp, text, p := ask(t, admin, r.Method, r.Path, bytes.NewReader(make([]byte, 2<<20)), "Content-Type",
			r.ContentType)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || p.Code != "body-too-large" || p.Remedy == "" {
			t.Errorf("%s: %d %.200s", r.Operation, resp.StatusCode, text)
		}
	}
	if n < 10 || len(f.Applied) != 0 {
		t.Errorf("%d operations were tried, %d descriptors applied", n, len(f.Applied))
	}
}

func TestHeadersAreBounded(t *testing.T) {
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	resp, _, _ := ask(t, admin, "GET", "/livez", nil, "X-Long", strings.Repeat("x", 64<<10))
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("got %d", resp.StatusCode)
	}
}

// rawConn is a connection to a server that a test says everything itself on.
func rawConn(t *testing.T, e client.Context) net.Conn {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(e.CA))
	pair, err := tls.X509KeyPair([]byte(e.Cert), []byte(e.Key))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Dial("tcp", strings.TrimPrefix(e.Server, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	conn := tls.Client(raw, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", Certificates: []tls.Certificate{pair}})
	t.Cleanup(func() { _ = conn.Close() }) // it is cut off, or the test is over
	return conn
}

// Clients that take for ever are cut off, wherever they stop, and meanwhile others
// are served.
func TestSlowClients(t *testing.T) {
	const limit = 2 * time.Second // longer than any of these takes for its first words on a busy machine
	f := &resttest.Fake{}
	for i := range 3000 {
		f.InstanceList = append(f.InstanceList,
			apiv1.InstanceView{Instance: wire.Instance{ID: fmt.Sprint(i), Reason: strings.Repeat("x", 4000)}})
	}
	_, _, admin := resttest.Serve(t, f, func(o *server.Options) {
		o.Timeouts = server.Timeouts{Header: limit, Body: limit, Answer: 2 * limit}
	})
	for name, c := range map[string]struct {
		sends string
		after string // then one byte after the other
		reads bool
		want  string // in what is read
	}{
		"header":          {"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ", "", true, ""},
		"header in drops": {"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ", strings.Repeat("x", 1000), true, ""},
		"body": {"PUT /v1/applications/- HTTP/1.1\r\nHost: x\r\nContent-Type: application/yaml\r\n" +
			"Content-Length: 1000\r\n\r\nappl", "", true, "body-too-slow"},
		"body in drops": {"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
			"Content-Length: 1000\r\n\r\n{", strings.Repeat(" ", 999), true, "body-too-slow"},
		"chunked body": {"PUT /v1/applications/- HTTP/1.1\r\nHost: x\r\nContent-Type: application/yaml\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n4\r\nappl\r\n", "", true, "body-too-slow"},
		"never reads":        {"GET /v1/instances HTTP/1.1\r\nHost: x\r\n\r\n", "", false, ""},
		"nothing after TLS":  {"", "", true, ""},
		"pipelines for ever": {strings.Repeat("GET /v1/instances HTTP/1.1\r\nHost: x\r\n\r\n", 20), "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := rawConn(t, admin)
			began := time.Now()
			if _, err := io.WriteString(conn, c.sends); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetDeadline(began.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := range len(c.after) {
					if _, err := conn.Write([]byte{c.after[i]}); err != nil {
						return
					}
					<-time.After(20 * time.Millisecond)
				}
			}()
			if !c.reads {
				// It is cut off although nothing is read: what is sent is refused.
				for {
					_, err := conn.Write([]byte("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"))
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Fatal("the server still waits")
					}
					if err != nil {
						return
					}
					<-time.After(20 * time.Millisecond)
				}
			}
			data, err := io.ReadAll(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the server still waits")
			}
			<-done
			if !strings.Contains(string(data), c.want) {
				t.Errorf("got %q, %v; want %s", data, err, c.want)
			}
			if took := time.Since(began); took < limit {
				t.Errorf("cut off after %s: %q", took, data)
			}
		})
	}
	if resp, _, _ := ask(t, admin, "GET", "/livez", nil); resp.StatusCode != 200 {
		t.Errorf("another is answered %d", resp.StatusCode)
	}
}

func TestPanicBecomesProblem(t *testing.T) {
	var log lockedBuffer
	f := &resttest.Fake{Hook: func(_ *resttest.Fake, op string) error {
		if op == "applications" {
			panic("boom secret-free")
		}
		return nil
	}}
	_, _, admin := resttest.Serve(t, f, func(o *server.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	resp, _, p := ask(t, admin, "GET", "/v1/applications", nil)
	if resp.StatusCode != 500 || p.Code != "internal" || p.Remedy == "" || strings.Contains(p.Detail, "boom") {
		t.Fatalf("got %d %+v", resp.StatusCode, p)
	}
	if text := log.String(); !strings.Contains(text, "boom") || !strings.Contains(text, "server_test.go") {
		t.Errorf("the log has no panic with its stack: %s", text)
	}
	if resp, _, _ := ask(t, admin, "GET", "/v1/clusters", nil); resp.StatusCode != 200 {
		t.Errorf("the next request got %d", resp.StatusCode)
	}
}

func TestUnencodableAnswerBecomesProblem(t *testing.T) {
	f := &resttest.Fake{NodeData: resttest.NodeData{ClusterList: []apiv1.ClusterView{{Name: "edge", AgeSeconds: math.NaN()}}}}
	_, _, admin := resttest.Serve(t, f, nil)
	resp, text, p := ask(t, admin, "GET", "/v1/clusters", nil)
	if resp.StatusCode != 500 || p.Code != "internal" {
		t.Fatalf("got %d %s", resp.StatusCode, text)
	}
}

func TestBackendErrors(t *testing.T) {
	var answer error
	f := &resttest.Fake{Hook: func(*resttest.Fake, string) error { return answer }}
	_, _, admin := resttest.Serve(t, f, nil)
	c := newClient(t, admin)
	for _, e := range []struct {
		err    error
		status int
		code   string
	}{
		{wire.Problemf(410, "token-expired", "make a new one", "the token has expired", "an hour ago"), 410,
			"token-expired"},
		{rest.Elsewhere("applying", "the root"), 421, "elsewhere"},
		{errors.New("disk on fire"), 500, "internal"},
		{wire.Problemf(0, "odd", "", "odd", "status 0 must not reach the wire"), 500, "odd"},
	} {
		answer = e.err
		_, err := c.System.Status(t.Context())
		var p *wire.Problem
		if !errors.As(err, &p) || p.Status != e.status || p.Code != e.code {
			t.Errorf("%v arrived as %#v", e.err, err)
		}
		var sent *wire.Problem
		if errors.As(e.err, &sent) && sent.Status != 0 && *sent != *p {
			t.Errorf("sent %+v, got %+v", sent, p)
		}
	}
}

func TestRequestsThatAreNotValid(t *testing.T) {
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/v1/events?wait=31s", "", 422, "invalid-request"},
		{"GET", "/v1/events?wait=soon", "", 422, "invalid-request"},
		{"GET", "/v1/events?after=-1", "", 422, "invalid-request"},
		{"GET", "/v1/instances/a.b.0/logs?max=99999999", "", 422, "invalid-request"},
		{"POST", "/v1/tokens", `{"kind":"root"}`, 422, "invalid-request"},
		{"POST", "/v1/tokens", `{"kind"`, 400, "invalid-request"},
		{"GET", "/v1/nothing", "", 404, "no-such-path"},
		{"POST", "/v1/status", "", 405, "no-such-method"},
	} {
		resp, text, p := ask(t, admin, c.method, c.path, strings.NewReader(c.body), "Content-Type", "application/json")
		if resp.StatusCode != c.status || p.Code != c.code || p.Remedy == "" {
			t.Errorf("%s %s: got %d %s", c.method, c.path, resp.StatusCode, text)
		}
	}
}

// What a request contains is never quoted: it may be a token.
func TestInvalidJoinDoesNotEchoToken(t *testing.T) {
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	body := `{"v":1,"token":"` + strings.Repeat("s3cret", 800) + `","name":"a","public_key":"","nats_key":""}`
	resp, text, _ := ask(t, admin, "POST", "/v1/join", strings.NewReader(body), "Content-Type", "application/json")
	if resp.StatusCode != 422 || strings.Contains(text, "s3cret") {
		t.Errorf("got %d %.300s", resp.StatusCode, text)
	}
}

func TestJoinIsOpenButLimited(t *testing.T) {
	var forged atomic.Bool
	f := &resttest.Fake{NodeData: resttest.NodeData{JoinAnswer: rpc.JoinReply{V: 1, Cluster: "edge"}}, Hook: func(*resttest.Fake, string) error {
		if forged.Load() {
			return wire.Problemf(403, "token-forged", "make a new one", "the join token is not genuine", "")
		}
		return nil
	}}
	_, a, admin := resttest.Serve(t, f, nil)
	nobody := a.Context(t, "", strings.TrimPrefix(admin.Server, "https://"))
	client := httpsClient(t, nobody)
	// Fields of a later version are ignored.
	body := `{"v":1,"token":"t","name":"edge","public_key":"aw==","nats_key":"k","later":true}`
	join := func() int {
		resp, err := client.Post(nobody.Server+"/v1/join", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == 429 && resp.Header.Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
		return resp.StatusCode
	}
	for range 60 { // a site behind one address
		if code := join(); code != 200 {
			t.Fatalf("got %d", code)
		}
	}
	// Who tries tokens is soon not looked at any more.
	forged.Store(true)
	answers := map[int]int{}
	for range 60 {
		answers[join()]++
	}
	if answers[403] < 20 || answers[429] == 0 || len(answers) != 2 {
		t.Errorf("refused joins were answered with %v", answers)
	}
}

func TestNameInPathMustMatch(t *testing.T) {
	f := &resttest.Fake{ApplicationData: resttest.ApplicationData{ApplyAnswer: apiv1.ApplyResult{Name: "guestbook", Revision: 1, Change: "created"}}}
	_, _, admin := resttest.Serve(t, f, nil)
	resp, _, p := ask(t, admin, "PUT", "/v1/applications/other", strings.NewReader("x"), "Content-Type",
		"application/json")
	if resp.StatusCode != 422 || p.Code != "wrong-name" || len(f.Applied) != 1 {
		t.Fatalf("got %d %+v after %d applies", resp.StatusCode, p, len(f.Applied))
	}
	resp, _, _ = ask(t, admin, "PUT", "/v1/applications/guestbook", strings.NewReader("x"), "Content-Type",
		"application/yaml")
	if resp.StatusCode != 200 || len(f.Applied) != 3 {
		t.Fatalf("got %d after %d applies", resp.StatusCode, len(f.Applied))
	}
}

func TestReadiness(t *testing.T) {
	f := &resttest.Fake{NotReady: errors.New("no store yet")}
	_, _, admin := resttest.Serve(t, f, nil)
	resp, text, _ := ask(t, admin, "GET", "/readyz?verbose", nil)
	if resp.StatusCode != 503 || !strings.Contains(text, "[-] role: no store yet") {
		t.Errorf("got %d %s", resp.StatusCode, text)
	}
	if resp, _, p := ask(t, admin, "GET", "/readyz", nil); resp.StatusCode != 503 || p.Code != "not-ready" {
		t.Errorf("got %d", resp.StatusCode)
	}
	if resp, _, _ := ask(t, admin, "GET", "/livez", nil); resp.StatusCode != 200 {
		t.Errorf("live: got %d", resp.StatusCode)
	}
}

func TestPortTaken(t *testing.T) {
	s, a, _ := resttest.Serve(t, &resttest.Fake{}, nil)
	second, err := server.New(server.Options{Addr: s.Addr().String(), TLS: a.ServerTLS(t), Backend: &resttest.Fake{}})
	if err != nil {
		t.Fatal(err)
	}
	err = second.Start()
	if err == nil || !strings.Contains(err.Error(), s.Addr().String()) || !strings.Contains(err.Error(), "→") {
		t.Fatalf("got %v", err)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Errorf("close a server that never started: %v", err)
	}
}

func TestOnlyTLS13(t *testing.T) {
	s, _, _ := resttest.Serve(t, &resttest.Fake{}, nil)
	c, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err == nil {
		_ = c.Close()
		t.Fatal("TLS 1.2 was accepted")
	}
}

func TestChangesAreLoggedWithoutBodies(t *testing.T) {
	var log lockedBuffer
	_, _, admin := resttest.Serve(t, &resttest.Fake{},
		func(o *server.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	c := newClient(t, admin)
	if _, err := c.Applications.Apply(t.Context(), []byte("top: s3cret"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.System.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The line is written after the answer is sent: Serve's cleanup has not run yet.
	text := log.await(t, "request")
	for _, want := range []string{"who=admin", `what="PUT /v1/applications/-"`, "status=200", "took="} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if strings.Contains(text, "s3cret") || strings.Contains(text, "/v1/status") {
		t.Errorf("the log says too much: %s", text)
	}
}

// A long poll ends when the server closes, with a problem and not a broken
// connection.
func TestCloseEndsLongPolls(t *testing.T) {
	b := &blocking{entered: make(chan struct{})}
	s, _, admin := resttest.Serve(t, b, nil)
	c := newClient(t, admin)
	result := make(chan error, 1)
	go func() {
		_, err := c.Events.After(t.Context(), 0, 30*time.Second)
		result <- err
	}()
	<-b.entered
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, <-result, "shutting-down", "shutting down")
}

type blocking struct {
	resttest.Fake
	entered chan struct{}
}

func (b *blocking) Events(ctx context.Context, _ uint64, _ time.Duration) (apiv1.EventPage, error) {
	close(b.entered)
	<-ctx.Done()
	return apiv1.EventPage{}, ctx.Err()
}

func TestOpenAPIDescribesAllOperations(t *testing.T) {
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	_, text, _ := ask(t, admin, "GET", "/openapi.json", nil)
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]struct{ OperationID string }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, p := range doc.Paths {
		for _, o := range p {
			described[o.OperationID] = true
		}
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") || len(described) < 16 {
		t.Errorf("OpenAPI %s with %d operations: %v", doc.OpenAPI, len(described), doc.Paths)
	}
	for _, id := range []string{"apply", "list-instances", "read-logs", "create-token", "join", "scale-service"} {
		if !described[id] {
			t.Errorf("no operation %s", id)
		}
	}
	for _, name := range []string{"InstanceView", "ProblemBody", "TokenRequest", "StatusView"} {
		if doc.Components.Schemas[name] == nil {
			t.Errorf("no schema %s", name)
		}
	}
	if doc.Components.Schemas["ErrorModel"] != nil {
		t.Error("the library's error type is described")
	}
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) await(t *testing.T, part string) string {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Second)
	for {
		text := l.String()
		if strings.Contains(text, part) {
			return text
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("no %q in the log: %s", part, text)
		}
	}
}

// Connections that say nothing, from however few addresses, keep nobody out who has
// credentials, and who has shown them keeps the connection.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	s, _, admin := resttest.Serve(t, &resttest.Fake{}, func(o *server.Options) {
		o.Timeouts = server.Timeouts{Header: time.Hour, Body: time.Hour,
			Answer: time.Hour} // it is not time that ends them
	})
	client := httpsClient(t, admin)
	get := func() bool {
		t.Helper()
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(),
			&httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin.Server+"/v1/applications", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", res.StatusCode, err)
		}
		return reused
	}
	get()
	for i := range 600 {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%2))}}).DialContext(t.Context(),
			"tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	if !get() {
		t.Error("the connection that had shown credentials was ended")
	}
	client.CloseIdleConnections()
	if get() {
		t.Error("it was no new connection")
	}
}

func TestVersionIsJSON(t *testing.T) {
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	_, text, _ := ask(t, admin, "GET", "/v1/version", nil)
	var v apiv1.VersionView
	if err := json.Unmarshal([]byte(text), &v); err != nil || v.Wire != wire.Version || v.Go == "" {
		t.Errorf("%s: %v", text, err)
	}
}
