package wasm

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
)

// goModule builds a function in Go; what it makes is about as large as most are.
func goModule(t testing.TB) string {
	t.Helper()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the Go toolchain is not here")
	}
	dir := t.TempDir()
	for name, from := range map[string]string{"main.go": "main.go.txt", "verge.go": "verge.go.txt", "go.mod": "go.mod.txt"} {
		b, err := os.ReadFile(filepath.Join("../../cli/template/go", from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(string(b), "NAME", "hello")), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), tool, "build", "-trimpath", "-ldflags=-s -w", "-buildmode=c-shared", "-o", "hello.wasm", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "hello.wasm")
}

// BenchmarkColdStart is what a request takes that a function is started for: Start of
// its task, load of its module from the cache on disk, its first answer.
func BenchmarkColdStart(b *testing.B) {
	for _, c := range []struct {
		name   string
		module func() string
	}{
		{"small", func() string { return testModule(b, "hello") }},
		{"go", func() string { return goModule(b) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := newDriver(b, Options{})
			s := specOf(b, c.module())
			s.MemoryLimit = 64 << 20
			if err := d.Fetch(b.Context(), s, func(string) {}); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				d.library.mu.Lock()
				for range d.library.loaded {
					d.library.evictLocked()
				}
				d.library.mu.Unlock()
				goruntime.GC()
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				b.StartTimer()
				start := time.Now()
				task, err := d.Start(b.Context(), s)
				if err != nil {
					b.Fatal(err)
				}
				resp, err := client.Get("http://" + s.Wasm.Listen) //nolint:noctx // it ends by itself
				if err != nil || resp.StatusCode != 200 {
					b.Fatalf("%v %+v", err, resp)
				}
				took = append(took, time.Since(start))
				b.StopTimer()
				_ = resp.Body.Close()
				if err := task.Cleanup(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

// BenchmarkRequest is what a request takes that finds everything in memory.
func BenchmarkRequest(b *testing.B) {
	for _, name := range []string{"hello", "handler"} {
		b.Run(name, func(b *testing.B) {
			d := newDriver(b, Options{})
			x := startTask(b, d, specOf(b, testModule(b, name)))
			for b.Loop() {
				resp, err := http.Post("http://"+x.spec.Wasm.Listen, "text/plain", strings.NewReader("e")) //nolint:noctx // it ends by itself
				if err != nil || resp.StatusCode != 200 {
					b.Fatalf("%v %+v", err, resp)
				}
				_ = resp.Body.Close()
			}
		})
	}
}

// BenchmarkIdleFunctions is what 1,000 functions cost of which each has answered once,
// and then nobody asked: bytes of this process.
func BenchmarkIdleFunctions(b *testing.B) {
	resident := func() float64 {
		goruntime.GC()
		debug.FreeOSMemory()
		var pages, rss int64
		text, err := os.ReadFile("/proc/self/statm")
		if err == nil {
			_, err = fmt.Sscan(string(text), &pages, &rss)
		}
		if err != nil {
			b.Skip("no /proc/self/statm here")
		}
		return float64(rss*int64(os.Getpagesize())) / (1 << 20)
	}
	for b.Loop() {
		d := New(Options{Dir: b.TempDir(), IdleAfter: time.Second})
		module, err := os.ReadFile(testModule(b, "hello"))
		if err != nil {
			b.Fatal(err)
		}
		dir := b.TempDir()
		before := resident()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for i := range 1000 {
			// Each is another module: with a section of its own, that nobody reads.
			name := fmt.Sprintf("%04d", i)
			path := filepath.Join(dir, name+".wasm")
			if err := os.WriteFile(path, append(slices.Clip(module), append([]byte{0, 6, 1, 'n'}, name...)...), 0o600); err != nil {
				b.Fatal(err)
			}
			s := runtime.Spec{ID: "app.fn" + name + ".0", LogDir: dir, MemoryLimit: 64 << 20, Env: []string{"VERGE_INSTANCE=" + name},
				Wasm: &runtime.Wasm{Module: path, Listen: net.JoinHostPort("127.0.0.1", "0")}}
			s.Wasm.Listen = freeAddr(b)
			if _, err := d.Start(context.Background(), s); err != nil {
				b.Fatal(err)
			}
			resp, err := client.Get("http://" + s.Wasm.Listen) //nolint:noctx // it ends by itself
			if err != nil || resp.StatusCode != 200 {
				b.Fatalf("%v %+v", err, resp)
			}
			_ = resp.Body.Close()
		}
		eventually(b, "no module in memory", func() bool { return loadedModules(d) == 0 })
		b.ReportMetric(resident()-before, "MB-idle")
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
