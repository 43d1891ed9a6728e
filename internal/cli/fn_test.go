package cli

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// answering is a world in which instances answer: with what they were asked.
func answering() *resttest.Fake {
	f := world()
	f.ExecStep = func(_ context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
		if q.Do != rpc.ExecDoInvoke || q.Invoke == nil {
			return rpc.ExecAnswer{}, wire.Problemf(400, "odd", "", "another step was meant", "%s", q.Do)
		}
		out := &rpc.Invoked{Status: http.StatusOK, Header: map[string][]string{"Content-Type": {"text/plain"}}}
		if q.Invoke.Path == "/none" {
			out.Status = http.StatusNotFound
		}
		out.Body = []byte(q.Instance + " " + q.Invoke.Method + " " + q.Invoke.Path + " " +
			strings.Join(q.Invoke.Header["X-A"], "") +
			strings.Join(q.Invoke.Header[objectHeader], "") + " " + string(q.Invoke.Body) + "\n")
		return rpc.ExecAnswer{Invoked: out}, nil
	}
	return f
}

func TestFnGolden(t *testing.T) {
	for name, line := range map[string]string{
		"fn-new":            "fn new DIR/hello",
		"fn-new-http":       "fn new DIR/hello --lang http",
		"fn-new-bad":        "fn new DIR/Hello",
		"fn-new-again":      "fn new DIR/there",
		"fn-new-lang":       "fn new DIR/hello --lang cobol",
		"fn-build-none":     "fn build DIR/there",
		"fn-build-nothing":  "fn build DIR/empty",
		"fn-build-prebuilt": "fn build DIR/made",
		"fn-deploy":         "fn deploy DIR/made --no-wait",
		"fn-invoke":         "fn invoke guestbook.store",
		"fn-invoke-app":     "fn invoke guestbook -X PUT --path /x?y=z -H X-A:b -d body -i",
		"fn-invoke-object":  "fn invoke guestbook --object default/cat.jpg",
		"fn-invoke-error":   "fn invoke guestbook --path /none",
		"fn-invoke-none":    "fn invoke nothing",
		"fn-invoke-usage":   "fn invoke guestbook -d x --file y",
		"fn-invoke-file":    "fn invoke guestbook --file DIR/none",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, answering())
			for _, dir := range []string{"there", "empty", "made"} {
				if err := os.Mkdir(filepath.Join(f.dir, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			const service = "application: made\nservices: {fn: {runtime: wasm, module: made.wasm}}\n"
			f.file("empty/verge.yaml", service)
			f.file("made/verge.yaml", service)
			f.file("made/made.wasm", "hello")
			args := strings.Fields(strings.ReplaceAll(line, "DIR", f.dir))
			f.golden(name, f.run(args...), args...)
		})
	}
}

// What is only built is sent nowhere, so that it needs no context; where it is sent, the
// namespace of the context counts.
func TestBuildNeedsNoContext(t *testing.T) {
	f := newFixture(t, answering())
	f.file("verge.yaml", "application: made\nservices: {fn: {runtime: wasm, module: made.wasm}}\n")
	f.file("made.wasm", "hello")
	f.env["VERGE_CONTEXT"] = filepath.Join(f.dir, "none")
	if r := f.run("fn", "build", f.dir); r.code != 0 || r.stdout != "made.wasm built\n" {
		t.Errorf("%+v", r)
	}
	if r := f.run("fn", "deploy", f.dir, "--no-wait"); r.code != 1 || !strings.Contains(r.stderr, "context") {
		t.Errorf("deployed to nowhere: %+v", r)
	}
}

func TestInvokeWithStandardInput(t *testing.T) {
	f := newFixture(t, answering())
	if r := f.runWith("from stdin", "fn", "invoke", "guestbook", "-"); r.code != 0 ||
		!strings.Contains(r.stdout, " from stdin\n") {
		t.Errorf("%+v", r)
	}
	if r := f.runWith(strings.Repeat("x", rpc.MaxInvokeBytes+1), "fn", "invoke", "guestbook", "-"); r.code != 1 ||
		!strings.Contains(r.stderr, "verge object put") {
		t.Errorf("%+v", r)
	}
}

// What is deployed is the module, under a name with its digest, and a descriptor that
// names it.
func TestDeployNamesTheModule(t *testing.T) {
	f := newFixture(t, answering())
	dir := filepath.Join(f.dir, "made")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"module: made.wasm", `module: "made.wasm" # a comment`, "module:   'made.wasm'"} {
		f.file("made/verge.yaml", "application: made\nservices:\n  fn:\n    runtime: wasm\n    "+line+"\n")
		f.file("made/made.wasm", "hello")
		if r := f.run("fn", "deploy", dir, "--no-wait"); r.code != 0 {
			t.Fatalf("%s: %+v", line, r)
		}
		const name = "functions/made/2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824.wasm"
		if got := string(f.fake.ObjectContents["default/"+name]); got != "hello" {
			t.Errorf("%s: the object is %q", line, got)
		}
		if got := string(f.fake.Applied[len(f.fake.Applied)-1]); !strings.Contains(got, name) {
			t.Errorf("%s: what is applied is\n%s", line, got)
		}
	}
}

// The folder that is made holds a descriptor that is accepted.
func TestNewFunctionsAreValid(t *testing.T) {
	for _, lang := range []string{"go", "http"} {
		f := newFixture(t, world())
		dir := filepath.Join(f.dir, "hello")
		if r := f.run("fn", "new", dir, "--lang", lang); r.code != 0 {
			t.Fatalf("%+v", r)
		}
		if r := f.run("validate", filepath.Join(dir, "verge.yaml")); r.code != 0 {
			t.Errorf("%s: %+v", lang, r)
		}
		for _, name := range []string{"main.go", "go.mod", "README.md"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(b) == 0 || strings.Contains(string(b), "NAME") && name != "main.go" &&
				name != "README.md" {
				t.Errorf("%s: %s: %v: %s", lang, name, err, b)
			}
		}
	}
}
