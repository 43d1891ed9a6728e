package server_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// slow is a backend one of whose answers takes until it is released.
type slow struct {
	resttest.Fake
	entered, release chan struct{}
}

func (b *slow) Clusters(context.Context) ([]apiv1.ClusterView, error) {
	close(b.entered)
	<-b.release
	return []apiv1.ClusterView{{Name: "edge"}}, nil
}

// A server that is told to end says first that it is not ready; what has begun is
// finished, nothing new begins, and only then nobody listens any more.
func TestCloseDrains(t *testing.T) {
	b := &slow{entered: make(chan struct{}), release: make(chan struct{})}
	s, _, admin := resttest.Serve(t, b, nil)
	if resp, text, _ := ask(t, admin, "GET", "/readyz?verbose", nil); resp.StatusCode != 200 ||
		!strings.Contains(text, "[+] serving: ok") {
		t.Fatalf("before: %d %s", resp.StatusCode, text)
	}
	c := newClient(t, admin)
	begun := make(chan error, 1)
	go func() {
		list, err := c.Clusters.List(t.Context())
		if err == nil && len(list) != 1 {
			t.Errorf("what had begun was answered with %+v", list)
		}
		begun <- err
	}()
	<-b.entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- s.Close(ctx) }()
	for {
		resp, text, _ := ask(t, admin, "GET", "/readyz?verbose", nil)
		if resp.StatusCode == 503 && strings.Contains(text, "[-] serving: shutting down") {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("it stays ready: %d %s", resp.StatusCode, text)
		}
	}
	if resp, _, _ := ask(t, admin, "GET", "/livez", nil); resp.StatusCode != 200 {
		t.Errorf("it is said to be dead: %d", resp.StatusCode)
	}
	var code string
	for code != "shutting-down" && ctx.Err() == nil {
		resp, _, p := ask(t, admin, "GET", "/v1/applications", nil)
		if code = p.Code; code == "shutting-down" && (resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "") {
			t.Errorf("a new request: %d %v", resp.StatusCode, resp.Header)
		}
	}
	close(b.release)
	if err := <-begun; err != nil {
		t.Errorf("what had begun: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if conn, err := net.DialTimeout("tcp", strings.TrimPrefix(admin.Server, "https://"), time.Second); err == nil {
		_ = conn.Close()
		t.Error("somebody still listens")
	}
}
