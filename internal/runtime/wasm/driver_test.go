package wasm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/runtime/wasm/guestfs"
	"github.com/verge-edge/verge/internal/wire"
)

// timeout of real requests, on a slow and busy machine.
const timeout = 30 * time.Second

// freeAddr is an address that can be listened on.
func freeAddr(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func newDriver(t testing.TB, o Options) *Driver {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "wasm")
	}
	d := New(o)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func testModule(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func specOf(t testing.TB, module string) runtime.Spec {
	return runtime.Spec{
		ID: "app.fn.0", LogDir: t.TempDir(), MemoryLimit: 16 << 20,
		Wasm: &runtime.Wasm{Module: module, Listen: freeAddr(t)},
	}
}

func startTask(t testing.TB, d *Driver, s runtime.Spec) *task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := d.Fetch(ctx, s, func(string) {}); err != nil {
		t.Fatal(err)
	}
	got, err := d.Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := got.Cleanup(); err != nil {
			t.Error(err)
		}
	})
	return got.(*task)
}

// ask sends a request to a task, and waits until nothing is left of it: an answer is
// there before that.
func ask(t testing.TB, x *task, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+x.spec.Wasm.Listen+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	eventually(t, "the end of the request", func() bool { return len(x.places) == 0 })
	if err != nil {
		return resp, string(b) + "\n" + err.Error()
	}
	return resp, string(b)
}

// eventually waits for what real requests and timers bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(timeout); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", timeout, what)
		}
	}
}

func loadedModules(d *Driver) int {
	return d.library.inMemory()
}

func logOf(t testing.TB, x *task) string {
	t.Helper()
	c, err := logfile.Read(x.spec.LogDir, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return string(c.Data)
}

// What is checked in must be what its source says.
func TestModulesAreWhatTheirSourceSays(t *testing.T) {
	tool, err := exec.LookPath("wat2wasm")
	if err != nil {
		t.Skip("wat2wasm is not here (Debian: wabt)")
	}
	for _, name := range []string{"hello", "echo", "handler"} {
		out := filepath.Join(t.TempDir(), name)
		if msg, err := exec.CommandContext(t.Context(), tool, filepath.Join("testdata", name+".wat"), "-o", out).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, msg)
		}
		got, err1 := os.ReadFile(out)
		want, err2 := os.ReadFile(testModule(t, name))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("testdata/%s.wasm is not of testdata/%[1]s.wat; make it again with wat2wasm", name)
		}
	}
}

func TestAProgramAnswers(t *testing.T) {
	d := newDriver(t, Options{})
	s := specOf(t, testModule(t, "echo"))
	s.Env = []string{"GREETING=good day", "HTTP_MINE=the service's"}
	x := startTask(t, d, s)
	big := strings.Repeat("0123456789", 100_000)
	resp, body := ask(t, x, "POST", "/a/b%20c?q=1&r", big, "X-Some", "thing", "Mine", "the client's", "Proxy", "evil", "Connection", "close")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("%s %v", resp.Status, resp.Header)
	}
	env, echoed, _ := strings.Cut(body, "\n\n")
	if echoed != big {
		t.Errorf("%d bytes came back of %d", len(echoed), len(big))
	}
	vars := map[string]string{}
	for kv := range strings.SplitSeq(strings.TrimSuffix(env, "\x00"), "\x00") {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := vars[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		vars[name] = value
	}
	for name, want := range map[string]string{
		"GREETING": "good day", "HTTP_MINE": "the service's", "HTTP_X_SOME": "thing",
		"GATEWAY_INTERFACE": "CGI/1.1", "REQUEST_METHOD": "POST", "PATH_INFO": "/a/b c", "QUERY_STRING": "q=1&r",
		"REQUEST_URI": "/a/b%20c?q=1&r", "CONTENT_LENGTH": "1000000", "SCRIPT_NAME": "", "SERVER_NAME": "127.0.0.1",
		"SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
	} {
		if got, ok := vars[name]; !ok || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"HTTP_PROXY", "HTTP_CONNECTION", "PATH", "HOME"} {
		if v, ok := vars[name]; ok {
			t.Errorf("%s=%s must not be there", name, v)
		}
	}
}

func TestAHandlerIsUsedAgain(t *testing.T) {
	d := newDriver(t, Options{})
	x := startTask(t, d, specOf(t, testModule(t, "handler")))
	for i := range 3 {
		resp, body := ask(t, x, "PUT", "/p", "ehello")
		want := string(rune('1' + i))
		if resp.StatusCode != 200 || !strings.HasPrefix(body, want+"\n") || !strings.HasSuffix(body, "\x00hello") || !strings.Contains(body, "PATH_INFO=/p\x00") {
			t.Fatalf("request %d: %s: %q", i, resp.Status, body)
		}
	}
	if log := logOf(t, x); log != "ready\n" {
		t.Errorf("log %q: an instance is made once, and what it prints is logged", log)
	}
	if u := x.Usage(); u.Memory != 8*64<<10 {
		t.Errorf("usage %+v, want the memory of one instance", u)
	}
	x.trim(0)
	if u := x.Usage(); u.Memory != 0 {
		t.Errorf("%d bytes are left of instances that ended", u.Memory)
	}
}

// Whatever a module does is the answer to its request, and the next is answered.
func TestWhatModulesDoWrong(t *testing.T) {
	d := newDriver(t, Options{})
	s := specOf(t, testModule(t, "handler"))
	patient := startTask(t, d, s)
	s = specOf(t, testModule(t, "handler"))
	s.Wasm.Timeout = 300 * time.Millisecond
	hasty := startTask(t, d, s)
	for _, c := range []struct {
		name, do string
		status   int
		want     string
	}{
		{"loops for ever", "l", 504, "took longer than 300ms"},
		{"sleeps for too long", "w", 504, "took longer than 300ms"},
		{"traps", "t", 502, "unreachable"},
		{"exits", "x", 502, "exited with 3"},
		{"takes memory for ever", "m", 502, "refused memory"},
		{"recurses for ever", "s", 502, "stack overflow"},
		{"says nothing", "n", 502, "ended without an answer"},
		{"is no CGI", "g", 502, "is no header field"},
		{"points outside", "o", 502, "outside of its memory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := patient
			if c.status == 504 {
				x = hasty
			}
			resp, body := ask(t, x, "POST", "/", c.do)
			if resp.StatusCode != c.status || !strings.Contains(body, c.want) {
				t.Fatalf("%s: %s; want %d and %q", resp.Status, body, c.status, c.want)
			}
			if ct := resp.Header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("content type %s", ct)
			}
			if resp, body := ask(t, patient, "POST", "/", "e!"); resp.StatusCode != 200 || !strings.HasSuffix(body, "!") {
				t.Errorf("the next request: %s: %s", resp.Status, body)
			}
		})
	}
	// An answer that was begun can't be taken back: it must not look whole.
	for _, do := range []string{"b", "c"} {
		resp, err := http.Post("http://"+patient.spec.Wasm.Listen, "", strings.NewReader(do)) //nolint:noctx // it ends by itself
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		if err == nil {
			t.Errorf("%s: the broken answer looks whole", do)
		}
		eventually(t, "the end of the request", func() bool { return len(patient.places) == 0 })
	}
	for _, x := range []*task{patient, hasty} {
		x.trim(0)
		if u := x.Usage(); u.Memory != 0 {
			t.Errorf("%d bytes are left", u.Memory)
		}
	}
}

func TestStartErrors(t *testing.T) {
	d := newDriver(t, Options{})
	dir := t.TempDir()
	put := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const empty = "\x00asm\x01\x00\x00\x00"
	for _, c := range []struct{ name, module, want string }{
		{"not there", filepath.Join(dir, "absent"), "there is no"},
		{"a directory", dir, "is no file"},
		{"no module", put("text", "#!/bin/sh"), "no WebAssembly module"},
		{"a component", put("component", "\x00asm\x0d\x00\x01\x00"), "component"},
		{"torn", put("torn", empty+"\x05\x10\x01"), "ends in the middle"},
		{"nothing in it", put("empty", empty), "neither _start"},
		{"too many in its tables", put("table", empty+"\x04\x08\x01\x70\x00\xff\xff\xff\xff\x0f"), "entries"},
		{"a name without a store", "functions/hello.wasm", "no object store"},
		{"nothing", "", "no module"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := specOf(t, c.module)
			_, err := d.Start(t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	s := specOf(t, testModule(t, "handler"))
	s.MemoryLimit = 1 << 18
	if _, err := d.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "raise limits.memory") {
		t.Errorf("less memory than it begins with: %v", err)
	}
	if len(d.library.tasks) != 0 {
		t.Errorf("modules are held for nobody: %v", d.library.tasks)
	}
}

// A module of the object store is fetched once: its name says what it is.
func TestAModuleFromTheObjectStore(t *testing.T) {
	d := newDriver(t, Options{})
	const name = "default/functions/hello/"
	b, err := os.ReadFile(testModule(t, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	right := name + hex.EncodeToString(sum[:]) + ".wasm"
	asked, released := 0, 0
	away := false
	d.Objects(func(context.Context, string) (string, func(), error) {
		asked++
		if away {
			return "", nil, wire.Problemf(503, "cluster-away", "", "it is away", "")
		}
		return testModule(t, "hello"), func() { released++ }, nil
	})
	startTask(t, d, specOf(t, right))
	away = true
	x := startTask(t, d, specOf(t, right))
	if resp, body := ask(t, x, "GET", "/", ""); resp.StatusCode != 200 || body != "hello\n" {
		t.Errorf("%s: %s", resp.Status, body)
	}
	if asked != 1 || released != 1 {
		t.Errorf("asked for %d times, released %d times, want once", asked, released)
	}
	if err := d.Fetch(t.Context(), specOf(t, name+"other.wasm"), func(string) {}); !errors.Is(err, runtime.ErrAway) {
		t.Errorf("while the store is away: %v", err)
	}
	away = false
	wrong := name + strings.Repeat("0", 64) + ".wasm"
	if err := d.Fetch(t.Context(), specOf(t, wrong), func(string) {}); err == nil || !strings.Contains(err.Error(), "its name says") {
		t.Errorf("another module than its name says: %v", err)
	}
}

// By reference: an object is a file, which is read where it is needed.
func TestObjectsAsFiles(t *testing.T) {
	const text = "0123456789"
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/key/default/a b" {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Unix(1, 0), strings.NewReader(text))
	}))
	defer store.Close()
	o := &guestfs.Objects{Base: store.URL + "/key", Client: store.Client(), Ctx: t.Context, Waiting: func(f func()) { f() }}
	f, err := o.Open("default/a b")
	if err != nil {
		t.Fatal(err)
	}
	if st, err := f.Stat(); err != nil || st.Size() != 10 || st.IsDir() || st.Name() != "a b" {
		t.Errorf("%+v, %v", st, err)
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != text {
		t.Errorf("%q, %v", b, err)
	}
	if n, err := f.(io.Seeker).Seek(-4, io.SeekEnd); err != nil || n != 6 {
		t.Errorf("%d, %v", n, err)
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != "6789" {
		t.Errorf("%q, %v", b, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := o.Open("default/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := o.Open("../default/a"); !errors.Is(err, os.ErrInvalid) {
		t.Errorf("a path that leads out: %v", err)
	}
}

// What other drivers do by processes is not there, and said.
func TestWhatATaskIsNot(t *testing.T) {
	d := newDriver(t, Options{})
	x := startTask(t, d, specOf(t, testModule(t, "hello")))
	var p *wire.Problem
	if _, err := x.Exec(t.Context(), runtime.Exec{Command: []string{"sh"}}); !errors.As(err, &p) || p.Code != "no-exec" {
		t.Errorf("exec: %v", err)
	}
	if err := x.Signal("CHLD"); err == nil || !strings.Contains(err.Error(), "no signals") {
		t.Errorf("a signal: %v", err)
	}
	if err := x.Signal("NONE"); err == nil {
		t.Error("no such signal: no error")
	}
	if _, err := d.Adopt(t.Context(), x.spec, x.Handle()); !errors.Is(err, runtime.ErrGone) {
		t.Errorf("adopt: %v", err)
	}
	if h := x.Handle(); h.PID != 0 {
		t.Errorf("handle %+v names a process", h)
	}
}

func TestTheEndOfATask(t *testing.T) {
	t.Run("in order", func(t *testing.T) {
		d := newDriver(t, Options{})
		s := specOf(t, testModule(t, "echo"))
		s.Attempt = 2
		x := startTask(t, d, s)
		pr, pw := io.Pipe()
		type result struct {
			body []byte
			err  error
		}
		began, got := make(chan struct{}), make(chan result, 1)
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.Wasm.Listen, pr)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				close(began)
				got <- result{nil, err}
				return
			}
			close(began)
			b, err := io.ReadAll(resp.Body)
			got <- result{b, err}
		}()
		if _, err := pw.Write([]byte("first ")); err != nil {
			t.Fatal(err)
		}
		<-began // the head is answered before the body has ended: nothing is held back
		if err := x.Signal("TERM"); err != nil {
			t.Fatal(err)
		}
		if _, err := pw.Write([]byte("second")); err != nil {
			t.Fatal(err)
		}
		if x.end.Over() {
			t.Error("it ended before its request")
		}
		if err := pw.Close(); err != nil {
			t.Fatal(err)
		}
		r := <-got
		if r.err != nil || !strings.HasSuffix(string(r.body), "first second") {
			t.Errorf("%v: %q", r.err, r.body)
		}
		exit, err := x.Wait(t.Context())
		if err != nil || exit.Code != 0 || exit.Signal != "" || exit.Attempt != 2 || exit.At.IsZero() {
			t.Errorf("exit %+v, %v", exit, err)
		}
		if err := x.Signal("TERM"); !errors.Is(err, runtime.ErrGone) {
			t.Errorf("signal after the end: %v", err)
		}
	})
	t.Run("by force", func(t *testing.T) {
		d := newDriver(t, Options{})
		x := startTask(t, d, specOf(t, testModule(t, "handler")))
		failed := make(chan error, 1)
		go func() {
			req, _ := http.NewRequestWithContext(t.Context(), "POST", "http://"+x.spec.Wasm.Listen, strings.NewReader("l"))
			_, err := http.DefaultClient.Do(req)
			failed <- err
		}()
		eventually(t, "a request that is worked on", func() bool { return len(x.places) > 0 })
		if err := x.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; err == nil {
			t.Error("a request to a killed task was answered")
		}
		if exit, err := x.Wait(t.Context()); err != nil || exit.Signal != "KILL" || exit.Code != 137 {
			t.Errorf("exit %+v, %v", exit, err)
		}
	})
}

// TestAnUnaskedBodyIsNotWaitedFor: who asks whether to send a body, and is answered
// without, does not send it.
func TestAnUnaskedBodyIsNotWaitedFor(t *testing.T) {
	x := startTask(t, newDriver(t, Options{}), specOf(t, testModule(t, "hello")))
	conn, err := net.Dial("tcp", x.spec.Wasm.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout / 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: function\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || len(said) == 0 {
		t.Errorf("%s, %v: %.200s", resp.Status, err, said)
	}
}

// TestAnUnreadBodyCutsNothing: a function need not read what it is sent. The connection
// goes on all the same, as the next request, which cannot be sent twice, may use it.
func TestAnUnreadBodyCutsNothing(t *testing.T) {
	for _, name := range []string{"hello", "handler", "echo"} {
		d := newDriver(t, Options{})
		x := startTask(t, d, specOf(t, testModule(t, name)))
		conn, err := net.Dial("tcp", x.spec.Wasm.Listen)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		answers := bufio.NewReader(conn)
		for _, body := range []string{"e", "", strings.Repeat("e", 300_000), "e"} {
			req, err := http.NewRequest("POST", "http://function/", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			wrote := make(chan error, 1)
			go func() { wrote <- req.Write(conn) }()
			resp, err := http.ReadResponse(answers, req)
			if err != nil {
				t.Fatalf("%s, after %d bytes: %v", name, len(body), err)
			}
			if said, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || resp.Close {
				t.Errorf("%s, after %d bytes: %s, close %v, %v: %.200s", name, len(body), resp.Status, resp.Close, err, said)
			}
			if err := <-wrote; err != nil {
				t.Fatalf("%s: its %d bytes: %v", name, len(body), err)
			}
		}
	}
}
