package proxytest

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// objective: what could not be answered within the objective of the service is told so
// at once, and only that.
func objective(t *testing.T, build Build) {
	come, leave := make(chan struct{}), make(chan struct{})
	addr := build(t, "http", wire.RequestRules{
		// Whatever one request takes, a second behind it takes longer than that; a
		// request that does not wait is not to blame for it.
		Concurrency: 1, SLO: 1,
	}, Handler(t, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/held" {
			come <- struct{}{}
			<-leave
		}
	})))
	c := client(t, false)
	// The end of an answer is known here before it is known to who counts the requests.
	answered := func(path string) int {
		for {
			res, _, err := do(t, c, "GET", "http://"+addr+path, nil, nil)
			if err != nil {
				t.Error(err)
				return 0
			}
			if res.StatusCode != http.StatusServiceUnavailable || t.Context().Err() != nil {
				return res.StatusCode
			}
		}
	}
	for range 3 { // from then on it is known how long one takes
		if got := answered("/"); got != http.StatusOK {
			t.Fatal(got)
		}
	}
	held := make(chan int)
	go func() { held <- answered("/held") }()
	<-come
	for name, change := range map[string]func(*http.Request){
		"plain":    nil,
		"deadline": func(req *http.Request) { req.Header.Set("Verge-Timeout", "60000") },
		"grpc":     func(req *http.Request) { req.Header.Set("Content-Type", "application/grpc") },
	} {
		res, body, err := do(t, c, "POST", "http://"+addr+"/", strings.NewReader("body"), change)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || s < 1 {
			t.Errorf("%s: Retry-After: %q", name, res.Header.Get("Retry-After"))
		}
		if name == "grpc" {
			if res.StatusCode != http.StatusOK || res.Header.Get("Grpc-Status") != "14" {
				t.Errorf("%s: %d %v", name, res.StatusCode, res.Header)
			}
			continue
		}
		if res.StatusCode != http.StatusServiceUnavailable ||
			res.Header.Get("Content-Type") != "application/problem+json" ||
			!strings.Contains(string(body), "too-slow") {
			t.Errorf("%s: %d %v %s", name, res.StatusCode, res.Header, body)
		}
	}
	close(leave)
	if got := <-held; got != http.StatusOK {
		t.Errorf("the one that was let in: %d", got)
	}
	if got := answered("/"); got != http.StatusOK {
		t.Errorf("after that: %d", got)
	}
}
