package h2client

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time of this process so far, server and client.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Beside the client of the standard library: small calls, and large bodies both ways.
func BenchmarkClient(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	srv := &http.Server{Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(w, req.Body)
		})}
	srv.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	defer func() {
		_ = srv.Close()
		<-done
	}()
	dial := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}
	ours := New(Options{MaxHead: 64 << 10, Dial: dial})
	defer ours.CloseIdleConnections()
	theirs := &http.Transport{Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	theirs.Protocols.SetUnencryptedHTTP2(true)
	defer theirs.CloseIdleConnections()
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 100}, {"4MB", 4 << 20}} {
		text := make([]byte, size.bytes)
		for name, do := range map[string]func(*http.Request) (*http.Response, error){
			"ours":   func(req *http.Request) (*http.Response, error) { return ours.Do(req, Hooks{}) },
			"theirs": theirs.RoundTrip,
		} {
			b.Run(size.name+"/"+name, func(b *testing.B) {
				before := cpu(b)
				defer func() { b.ReportMetric(float64(cpu(b)-before)/1e3/float64(b.N), "cpu-µs/op") }()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						res, err := do(newRequest(b.Context(), b, "POST", io.NopCloser(bytes.NewReader(text))))
						if err != nil {
							b.Error(err)
							return
						}
						n, err := io.Copy(io.Discard, res.Body)
						if err != nil || n != int64(size.bytes) {
							b.Errorf("%d bytes, %v", n, err)
						}
						_ = res.Body.Close()
					}
				})
			})
		}
	}
}
