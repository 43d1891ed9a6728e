package health

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestNetProber(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			if r.Host != "127.0.0.1" {
				w.WriteHeader(http.StatusMisdirectedRequest)
			}
		case "/moved":
			http.Redirect(w, r, "/bad", http.StatusFound)
		case "/hang":
			<-hang
		default:
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "no data\n\x1b from hush") // the test reads it
		}
	}))
	defer srv.Close()
	defer close(hang)
	port := srv.Listener.Addr().(*net.TCPAddr).Port
	p := NewNetProber()
	for path, want := range map[string]string{"": "", "/ok": "", "/moved": "", "/bad": `500 "no data from [secret]"`,
		"/hang": "no answer within 50ms"} {
		timeout := 10 * time.Second
		if path == "/hang" {
			timeout = 50 * time.Millisecond
		}
		err := Timed(context.Background(), timeout, func(ctx context.Context) error {
			return p.Probe(ctx, Check{port: port, Path: path, Timeout: timeout, Hidden: [][]byte{[]byte("hush")}})
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Probe(context.Background(), Check{port: free}); err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %v", err)
	}
}
