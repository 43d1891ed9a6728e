package engine

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// A function runs in the engine: it has a port and no process, the files and secrets
// of its descriptor and nothing else, and the next engine starts it again at once.
func TestAFunctionInTheEngine(t *testing.T) {
	module, err := filepath.Abs("../runtime/wasm/testdata/echo.wasm")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(orders ...wire.Order) (*Engine, func()) {
		t.Helper()
		config := engineapi.EngineConfig{V: wire.Version, Worker: "w1", Cluster: "edge",
			Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30}}
		drivers, closeAll := Drivers(dir, config, logTo(io.Discard))
		e, err := New(Options{Dir: dir, Config: config, Drivers: drivers, Log: logTo(io.Discard)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		if orders != nil {
			if err := e.Apply(t.Context(), engineapi.EngineOrders{V: wire.Version, Orders: orders}); err != nil {
				t.Fatal(err)
			}
		}
		return e, func() {
			t.Helper()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			closeAll()
		}
	}
	ready := func(e *Engine) wire.InstanceStatus {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for after := uint64(0); ; {
			s, err := e.State(ctx, after, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range s.Changed {
				if i.Ready {
					return i
				}
			}
			after = s.Seq
		}
	}
	get := func(e *Engine) string {
		t.Helper()
		addr, err := e.Target("a.fn.0", "http")
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post("http://"+addr+"/x", "text/plain",
			strings.NewReader("body")) //nolint:noctx // it ends by itself
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }() // read only
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v: %s", resp.Status, err, b)
		}
		return string(b)
	}
	order := wire.Order{
		ID: "a.fn.0", App: "a", Service: "fn", Revision: 1,
		Spec: &api.Service{
			Runtime: api.Wasm, Module: module, Args: []string{"${PORT}"}, Env: map[string]string{"GREETING": "hi"},
			Files:  map[string]api.File{"conf/a.txt": {Content: "x"}},
			Ports:  []api.Port{{Name: "http", Protocol: "http"}},
			Limits: api.Limits{Memory: 64 << 20}, Restart: api.Restart{Policy: "always"},
		},
	}
	e, stop := run(order)
	status := ready(e)
	if status.PID != 0 || status.Ports["http"] == 0 || status.Phase != wire.PhaseRunning {
		t.Errorf("status %+v", status)
	}
	body := get(e)
	for _, want := range []string{"GREETING=hi\x00", "VERGE_INSTANCE=a.fn.0\x00", "PATH_INFO=/x\x00", "\n\nbody"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %q", want, body)
		}
	}
	for _, not := range []string{"\x00PATH=", "\x00HOME=", "\x00TMPDIR="} {
		if strings.Contains(body, not) {
			t.Errorf("%q is there", not)
		}
	}
	stop()
	e, stop = run()
	status = ready(e)
	if status.Restarts != 1 || status.LastExit == nil || !status.LastExit.Unknown {
		t.Errorf("after another engine: %+v", status)
	}
	get(e)
	if files, err := os.ReadDir(filepath.Join(dir, wasmDir)); err != nil || len(files) != 1 {
		t.Errorf("modules on disk: %v, %v", files, err)
	}
	stop()
}
