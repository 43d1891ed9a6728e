package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFunctions applies a function whose module is a file of the worker, and asks it:
// through the tiers and through the gateway.
func TestFunctions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	tmp, gateway := devDir(t), freeAddr(t)
	d := startDev(t, tmp, gateway, "--clusters", "edge", "--workers", "1")
	context := filepath.Join(d.dir, "context.yaml")
	run := func(args ...string) string {
		t.Helper()
		r := verge(t, context, args...)
		if r.code != 0 {
			t.Fatalf("verge %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
		}
		return r.out
	}
	module := must[string](t)(filepath.Abs("../internal/runtime/wasm/testdata/echo.wasm"))
	descriptor := "application: fn\nservices:\n  echo:\n    runtime: wasm\n    module: " + module + "\n    env: {GREETING: hi}\n    ports: [{ingress: {host: fn.localhost}}]\n"
	file := filepath.Join(tmp, "fn.yaml")
	if err := os.WriteFile(file, []byte(descriptor), 0o600); err != nil {
		t.Fatal(err)
	}
	run("apply", file)
	out := run("fn", "invoke", "fn", "--path", "/a?b", "-d", "by value", "-H", "X-One: 1")
	for _, want := range []string{"GREETING=hi\x00", "PATH_INFO=/a\x00", "HTTP_X_ONE=1\x00", "REQUEST_METHOD=POST\x00", "\n\nby value"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+gateway+"/", http.NoBody))
	req.Host = "fn.localhost"
	resp := must[*http.Response](t)(http.DefaultClient.Do(req))
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the gateway says %s", resp.Status)
	}
	if r := verge(t, context, "exec", "fn.echo.0", "--", "true"); r.code == 0 || !strings.Contains(r.err, "no program can run beside it") {
		t.Errorf("exec: %d: %s%s", r.code, r.out, r.err)
	}
	d.interrupt()
}
