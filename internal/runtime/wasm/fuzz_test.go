package wasm

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/verge-edge/verge/internal/runtime/wasm/bytecode"
	"github.com/verge-edge/verge/internal/runtime/wasm/cgi"
)

// FuzzAnswer writes what a module may write, in pieces, as its answer.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"Content-Type: text/plain\n\nhello", "Status: 404 Not Found\r\nContent-Type: a/b\r\n\r\n", "Location: /x\n\n",
		"Content-Type: a/b\nContent-Length: 3\n\n12345", "Content-Length: -1\n\n", "Transfer-Encoding: chunked\nStatus: 200\n\n0\r\n\r\n",
		"X: a\rb\nStatus: 200\n\n", "Status: 204\n\nbody", "no header\n\n", "Status: 99\n\n", "\n\n", ":\n\n", "A\x00: b\n\n", " folded: x\n more\n\n",
	} {
		f.Add([]byte(s), uint8(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		w := httptest.NewRecorder()
		a := &answer{w: w, rc: http.NewResponseController(w)}
		var failed error
		for rest := b; len(rest) > 0 && failed == nil; {
			n := min(int(piece)+1, len(rest))
			_, failed = a.Write(rest[:n])
			rest = rest[n:]
		}
		if !a.begun {
			if w.Body.Len() > 0 {
				t.Fatalf("a body without a head: %q", w.Body)
			}
			return
		}
		if w.Code < 200 || w.Code > 599 {
			t.Errorf("status %d", w.Code)
		}
		for name, values := range w.Header() {
			switch name {
			case "Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade", "Status":
				t.Errorf("%s went through", name)
			}
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00") {
				t.Errorf("%q: %q breaks out of its line", name, values)
			}
		}
		// In one piece it is the same answer.
		again := httptest.NewRecorder()
		one := &answer{w: again, rc: http.NewResponseController(again)}
		_, _ = one.Write(b)
		if again.Code != w.Code || failed == nil && !bytes.Equal(again.Body.Bytes(), w.Body.Bytes()) {
			t.Errorf("in pieces %d %q, at once %d %q", w.Code, w.Body, again.Code, again.Body)
		}
	})
}

// FuzzVariables makes variables of the head of a request.
func FuzzVariables(f *testing.F) {
	f.Add("/a%00b?x=y", "X-Forwarded-For", "1.2.3.4\x00")
	f.Add("/", "Proxy", "http://evil")
	f.Add("/", "Under_Score", "x")
	f.Fuzz(func(t *testing.T, target, name, value string) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://host"+target, http.NoBody)
		if err != nil {
			t.Skip()
		}
		req.Header[http.CanonicalHeaderKey(name)] = []string{value}
		seen := map[string]bool{}
		for _, kv := range cgi.Variables(req, map[string]bool{"HTTP_MINE": true}) {
			key, _, ok := strings.Cut(kv, "=")
			switch {
			case !ok || key == "" || strings.ContainsRune(kv, 0):
				t.Errorf("%q is no variable", kv)
			case seen[key]:
				t.Errorf("%s is there twice", key)
			case key == "HTTP_PROXY" || key == "HTTP_MINE":
				t.Errorf("%s is set by a request", key)
			}
			seen[key] = true
		}
	})
}

// FuzzBound reads what may be no module at all. What it lets through is bounded, and
// the compiler takes it for what it was before.
func FuzzBound(f *testing.F) {
	for _, name := range []string{"hello", "handler"} {
		b, err := os.ReadFile("testdata/" + name + ".wasm")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x04\x04\x01\x70\x00\x01"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01"))
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	f.Cleanup(func() { _ = rt.Close(ctx) })
	f.Fuzz(func(t *testing.T, b []byte) {
		out, memory, err := bytecode.Bound(b)
		if err != nil {
			return
		}
		if memory < 0 || memory > 4<<30 {
			t.Errorf("memory %d", memory)
		}
		if again, _, err := bytecode.Bound(out); err != nil || !bytes.Equal(again, out) {
			t.Errorf("bounded twice it is another: %v", err)
		}
		was, errWas := rt.CompileModule(ctx, b)
		is, errIs := rt.CompileModule(ctx, out)
		if errWas == nil && errIs != nil {
			t.Errorf("it was a module before: %v", errIs)
		}
		if errWas == nil {
			_ = was.Close(ctx)
		}
		if errIs == nil {
			_ = is.Close(ctx)
			small, err := bytecode.Shell(out, "digest")
			if err != nil {
				t.Fatalf("it has no shell: %v", err)
			}
			m, err := rt.CompileModule(ctx, small)
			if err != nil {
				t.Fatalf("its shell is no module: %v", err)
			}
			_ = m.Close(ctx)
		}
	})
}
