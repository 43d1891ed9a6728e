package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/wire"
)

// Bytes of a connection are counted at the router that it was opened at, and at the
// one that has the instance, small pieces and large ones.
func TestTrafficIsCounted(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	b.addGreeter(t, "app.web.0")
	a.SetRoutes([]wire.Route{webRoute(b.endpoint("app.web.0"))})
	c, _, err := greetFrom(a.addr(t, "tcp"))
	must(t, err)
	sent := bytes.Repeat([]byte("x"), 300_000)
	done := make(chan error, 1)
	go func() { _, err := c.Write(sent); done <- err }()
	_, err = io.ReadFull(c, make([]byte, len(sent)))
	must(t, err)
	must(t, <-done)
	must(t, c.Close())
	const greeting = uint64(len("app.web.0\n"))
	want := counters.Traffic{Received: uint64(len(sent)), Sent: uint64(len(sent)) + greeting}
	eventually(t, "all bytes are counted", func() bool {
		st, far := a.Stats(), b.Stats()
		return st.Services[0].Traffic == want && far.Data.Traffic == want
	})
	if h := a.Stats().Services[0].Connects; h.Counts[0]+h.Counts[1]+h.Counts[2]+h.Counts[3]+h.Counts[4]+h.Counts[5]+
		h.Counts[6]+h.Counts[7]+h.Counts[8]+h.Counts[9] != 1 || h.Sum <= 0 {
		t.Errorf("one connection took %+v", h)
	}
}

// Requests are counted by service, method and status; those whose client left
// before an answer as what they are.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	arrived := make(chan struct{})
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/slow":
			close(arrived)
			<-req.Context().Done()
		case "/bad":
			w.WriteHeader(http.StatusTeapot)
		default:
			_, _ = io.WriteString(w, "ok")
		}
	}))
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0"))})
	c := client(t)
	for _, path := range []string{"/", "/", "/bad"} {
		fetch(t, c, a.request(t, "GET", host, path, nil))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	if res, err := c.Do(a.request(t, "POST", host, "/slow", nil).WithContext(ctx)); err == nil {
		_ = res.Body.Close()
		t.Error("a request that was given up was answered")
	}
	a.engine.set("app.web.0", "", local.ErrDraining)
	fetch(t, c, a.request(t, "GET", host, "/", nil))
	want := map[string]uint64{"GET 200": 2, "GET 418": 1, "POST 499": 1, "GET 503": 1}
	eventually(t, "all requests are counted", func() bool {
		got := 0
		for _, x := range a.Stats().Services[0].Answers {
			var n uint64
			for _, k := range x.Counts {
				n += k
			}
			if want[x.Method+" "+strconv.Itoa(x.Status)] != n {
				return false
			}
			got++
		}
		return got == len(want)
	})
	if tr := a.Stats().Gateway.Traffic; tr.Received == 0 || tr.Sent == 0 {
		t.Errorf("the gateway's traffic is %+v", tr)
	}
}
