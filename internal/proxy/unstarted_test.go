package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/wire"
)

// aside has a sleeper at home and what asks for it at a: the same worker or another one.
func aside(t *testing.T, far bool, rules wire.RequestRules) (a, home *worker, rt wire.Route) {
	t.Helper()
	ca := newAuthority(t)
	a = newWorker(t, ca, "a", nil)
	home = a
	if far {
		home = newWorker(t, ca, "b", nil)
	}
	home.addHTTP(t, "app.web.0", says("awake"))
	e := home.endpoint("app.web.0")
	e.Asleep = true
	rt = requestRoute("http", rules, e)
	a.SetRoutes([]wire.Route{rt})
	home.SetRoutes([]wire.Route{rt})
	return a, home, rt
}

// Who waits for an instance that does not start is told why and when to ask again, and so
// is who comes then, at once and by both drivers; where there is another instance it
// answers.
func TestAnInstanceThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for name, far := range map[string]bool{"here": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, home, rt := aside(t, far, wire.RequestRules{})
			addr := home.engine.at("app.web.0")
			home.engine.set("app.web.0", "", local.ErrAsleep)
			url := a.entryURL(t, "http", "/")
			waits := ask(t, client(t), url, 3)
			eventually(t, "they wait", func() bool { return home.InFlight("app.web.0") == 3 })
			home.engine.set("app.web.0", "",
				&local.StartError{Why: "its program ended with exit code 3", Again: 7 * time.Second})
			home.LocalChanged()
			for range 3 {
				if s := <-waits; !strings.HasPrefix(s, "503") || !strings.Contains(s, "not-started") ||
					!strings.Contains(s, "exit code 3") {
					t.Error(s)
				}
			}
			chunked := func() (*http.Response, string) { // which the fast path leaves to the other driver
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
					io.MultiReader(strings.NewReader("x")))
				must(t, err)
				return fetch(t, client(t), req)
			}
			for driver, do := range map[string]func() (*http.Response, string){
				"fast": func() (*http.Response, string) { return get(t, client(t), url) }, "all of HTTP": chunked,
			} {
				res, body := do()
				if res.StatusCode != 503 || res.Header.Get("Retry-After") != "7" ||
					!strings.Contains(body, "not-started") || !strings.Contains(body, "exit code 3") {
					t.Errorf("%s: %d, Retry-After %q: %s", driver, res.StatusCode, res.Header.Get("Retry-After"), body)
				}
			}
			home.engine.set("app.web.0", "", &local.StartError{Why: "its worker has no room for it now", Full: true})
			if res, body := get(t, client(t), url); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" ||
				!strings.Contains(body, "no-room") {
				t.Errorf("%d, Retry-After %q: %s", res.StatusCode, res.Header.Get("Retry-After"), body)
			}
			if st := a.Stats().Services[0]; st.Unstarted != 6 || st.Failures != 6 || st.Retries != 0 ||
				st.Outliers != 0 {
				t.Errorf("counted %+v", st)
			}

			// It goes on to one that answers, whichever is asked first.
			a.addHTTP(t, "app.web.1", says("other"))
			rt.Endpoints = append(rt.Endpoints, a.endpoint("app.web.1"))
			a.SetRoutes([]wire.Route{rt})
			for range 5 {
				if res, body := get(t, client(t), url); res.StatusCode != 200 || body != "other" {
					t.Errorf("%d %s", res.StatusCode, body)
				}
			}
			// And it is back when it starts.
			rt.Endpoints = rt.Endpoints[:1]
			a.SetRoutes([]wire.Route{rt})
			home.engine.set("app.web.0", addr, nil)
			home.LocalChanged()
			if res, body := get(t, client(t), url); res.StatusCode != 200 || body != "awake" {
				t.Errorf("%d %s", res.StatusCode, body)
			}
		})
	}
}

// One that takes longer than there is time for: whoever waits is told that, and not that
// an instance was too slow, which would be held against it.
func TestAStartThatTakesTooLong(t *testing.T) {
	t.Parallel()
	for name, far := range map[string]bool{"here": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, home, _ := aside(t, far, wire.RequestRules{Timeout: 2e9})
			// The stream to the other worker is there already: opening one on a busy
			// machine may take the whole margin.
			url := a.entryURL(t, "http", "/")
			if res, body := get(t, client(t), url); res.StatusCode != 200 {
				t.Fatalf("awake it says %d: %s", res.StatusCode, body)
			}
			home.engine.set("app.web.0", "", local.ErrAsleep)
			home.LocalChanged()
			res, body := get(t, client(t), url)
			if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "not-started") ||
				!strings.Contains(body, "did not become ready within 1.") {
				t.Errorf("%d, Retry-After %q: %s", res.StatusCode, res.Header.Get("Retry-After"), body)
			}
			if st := a.Stats().Services[0]; st.Unstarted != 1 || st.Late != 0 || st.Outliers != 0 {
				t.Errorf("counted %+v", st)
			}
			eventually(t, "its place is free again", func() bool { return home.InFlight("app.web.0") == 0 })
		})
	}
}

// More come to an instance that wakes than may wait: those that find no place are told at
// once, all others are answered, and the counts say so.
func TestOverflowWhileItWakes(t *testing.T) {
	t.Parallel()
	const places, waiting, come = 2, 5, 40
	for name, far := range map[string]bool{"here": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, home, _ := aside(t, far, wire.RequestRules{Concurrency: places, QueueMax: waiting})
			addr := home.engine.at("app.web.0")
			home.engine.set("app.web.0", "", local.ErrAsleep)
			url := a.entryURL(t, "http", "/")
			var mu sync.Mutex
			full, answered := 0, 0
			var wg sync.WaitGroup
			for range come {
				wg.Go(func() {
					res, body := get(t, client(t), url)
					mu.Lock()
					defer mu.Unlock()
					switch {
					case res.StatusCode == 200 && body == "awake":
						answered++
					case res.StatusCode == 503 && res.Header.Get("Retry-After") != "" &&
						strings.Contains(body, "queue-full"):
						full++
					default:
						t.Errorf("%d: %s", res.StatusCode, body)
					}
				})
			}
			// Until it is awake nobody leaves but who finds no place.
			eventually(t, "the others were told", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return full == come-waiting && answered == 0
			})
			home.engine.set("app.web.0", addr, nil)
			home.LocalChanged()
			wg.Wait()
			if answered != waiting || full != come-waiting {
				t.Errorf("%d answered, %d told that it is full, of %d", answered, full, come)
			}
			st := a.Stats().Services[0]
			if st.Requests != come || st.Full != come-waiting || st.Failures != st.Full || st.Late+st.Unstarted+
				st.Hopeless != 0 {
				t.Errorf("counted %+v", st)
			}
			// A place is given back a moment after the answer has gone.
			eventually(t, "its queue is empty", func() bool {
				x := home.services.Local.Get("app.web.0").Queue.State()
				return x.Waiting == 0 && x.Running == 0
			})
		})
	}
}

// What becomes of the start is known before the request that woke the instance is one of
// those who wait: it is told all the same.
func TestAStartThatFailsAtOnce(t *testing.T) {
	t.Parallel()
	a, home, _ := aside(t, false, wire.RequestRules{})
	home.engine.set("app.web.0", "", local.ErrAsleep)
	fails := func(id wire.InstanceID) { home.engine.set(id, "", local.ErrNotReady) }
	home.engine.wake.Store(&fails)
	if res, body := get(t, client(t), a.entryURL(t, "http", "/")); res.StatusCode != 503 {
		t.Errorf("%d: %s", res.StatusCode, body)
	}
}
