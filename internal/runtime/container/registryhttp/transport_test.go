package registryhttp

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The client of containerd has a bound of its own for the same, which may be the first.
func TestWhoGivesUpFirst(t *testing.T) {
	over := make(chan struct{})
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		<-over
	}))
	defer server.Close()
	defer close(over)
	x := &Transport{Next: &http.Transport{ResponseHeaderTimeout: 50 * time.Millisecond}, Stall: time.Hour, Mute: &sync.Map{}}
	for range 2 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := x.RoundTrip(r)
		if err == nil {
			answer.Body.Close()
		}
		var s *Stalled
		if !errors.As(err, &s) || s.Host != r.URL.Host || s.Timeout() {
			t.Errorf("it ends with %v", err)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}
