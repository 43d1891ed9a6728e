package proxy

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// How an instance answers is counted where it is, whichever worker and whichever path the
// request came by, and what does not speak of the instance is not a failure.
func TestAnswersAreCountedWhereTheInstanceIs(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	b.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/bad":
			w.WriteHeader(http.StatusInternalServerError)
		case "/never":
			w.WriteHeader(http.StatusNotImplemented)
		case "/no":
			w.WriteHeader(http.StatusNotFound)
		case "/break":
			panic(http.ErrAbortHandler)
		}
	}))
	rt := requestRoute("http", wire.RequestRules{Counted: true}, b.endpoint("app.web.0"))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	for _, from := range []*worker{a, b} {
		for name, c := range map[string]*http.Client{"HTTP/1.1": client(t), "HTTP/2": h2Client(t)} {
			for _, path := range []string{"/", "/", "/no", "/never", "/bad"} {
				get(t, c, from.entryURL(t, "http", path))
			}
			if got := b.Answers(); len(got) != 1 ||
				got[0] != (wire.InstanceAnswers{Instance: "app.web.0", Answered: 5, Failed: 1}) {
				t.Errorf("over %s from %s: %+v", name, from.name, got)
			}
		}
	}
	res, _ := get(t, client(t), b.entryURL(t, "http", "/break"))
	if got := b.Answers(); res.StatusCode != http.StatusBadGateway || len(got) != 1 || got[0].Failed == 0 ||
		got[0].Failed != got[0].Answered {
		t.Errorf("a connection that breaks: %d, %+v", res.StatusCode, got)
	}
	if got := a.Answers(); len(got) != 0 {
		t.Errorf("the worker that asked says %+v", got)
	}
	select {
	case <-b.Asked():
	default:
		t.Error("nobody is told that there is something to count")
	}
	rt.Requests.Counted = false
	b.SetRoutes([]wire.Route{rt})
	get(t, client(t), b.entryURL(t, "http", "/"))
	if got := b.Answers(); len(got) != 0 {
		t.Errorf("counted though nobody wants it: %+v", got)
	}
}

// How a call of gRPC has ended is in its trailers, or in the head of an answer without a body.
func TestCallsAreCountedByTheirStatus(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	b.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/grpc+proto")
		kind, status, _ := strings.Cut(req.URL.Path[1:], "/")
		if kind == "head" {
			w.Header().Set("Grpc-Status", status)
			return
		}
		_, _ = w.Write(make([]byte, 5))
		if kind == "break" {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		if status != "" {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
		}
	}))
	rt := requestRoute("grpc", wire.RequestRules{Counted: true}, b.endpoint("app.web.0"))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	failed := map[string]bool{"2": true, "4": true, "13": true, "14": true, "15": true}
	for _, from := range []*worker{a, b} {
		c := h2Client(t)
		call := func(path string, want uint64) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, from.entryURL(t, "grpc", path), nil)
			must(t, err)
			req.Header.Set("Content-Type", "application/grpc+proto")
			req.Header.Set("Te", "trailers")
			res, err := c.Do(req)
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body) // it may break
				_ = res.Body.Close()
			}
			// The answer may be read to its end before its router has counted it.
			var got []wire.InstanceAnswers
			eventually(t, "it is counted", func() bool { got = append(got, b.Answers()...); return len(got) > 0 })
			if len(got) != 1 || got[0] != (wire.InstanceAnswers{Instance: "app.web.0", Answered: 1, Failed: want}) {
				t.Errorf("%s from %s: %+v, want %d failed", path, from.name, got, want)
			}
		}
		for n := range 17 {
			status, want := strconv.Itoa(n), uint64(0)
			if failed[status] {
				want = 1
			}
			call("/head/"+status, want)
			call("/body/"+status, want)
		}
		call("/body/", 0)
		call("/break/", 1)
	}
}

// A new revision gets its share of the requests of every worker, and its routes say so.
func TestARevisionIsTriedOnAShare(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addHTTP(t, "app.web.0", says("old"))
	b.addHTTP(t, "app.web.1", says("old"))
	b.addHTTP(t, "app.web.200000", says("new"))
	fresh := b.endpoint("app.web.200000")
	fresh.Trial = true
	route := func(share api.Percent) []wire.Route {
		fresh.TrialShare = share
		return []wire.Route{requestRoute("http", wire.RequestRules{}, a.endpoint("app.web.0"), b.endpoint("app.web.1"),
			fresh)}
	}
	c := client(t)
	for _, share := range []api.Percent{1000, 0, 5000} {
		for _, w := range []*worker{a, b} {
			w.SetRoutes(route(share))
			n := 0
			for range 100 {
				if _, body := get(t, c, w.entryURL(t, "http", "/")); body == "new" {
					n++
				}
			}
			if want := int(share / 100); n < want-3 || n > want+3 {
				t.Errorf("%s: %d of 100 came to the new one at a share of %s", w.name, n, share)
			}
			r, ok := w.Route("app.web")
			for _, e := range r.Endpoints {
				if !ok || e.Instance == fresh.Instance && (e.Share < share.Of()-1e-9 || e.Share > share.Of()+1e-9) {
					t.Errorf("%s: the route says %+v", w.name, e)
				}
			}
		}
	}
}
