package proxy

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// A line is a connection between workers that can fall silent: nothing passes any
// more, nothing is said about it, and nobody new is let in.
type line struct {
	ln     net.Listener
	silent atomic.Bool
	held   atomic.Pointer[chan struct{}] // nothing passes until it is closed; nil: all does
	wg     sync.WaitGroup
}

// hold lets nothing pass, and nobody notice, until release is called.
func (l *line) hold() (release func()) {
	c := make(chan struct{})
	l.held.Store(&c)
	return sync.OnceFunc(func() {
		l.held.Store(nil)
		close(c)
	})
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &line{ln: ln}
	var mu sync.Mutex
	var open []net.Conn
	l.wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			mu.Lock()
			open = append(open, in, out)
			mu.Unlock()
			l.wg.Go(func() { l.carry(out, in) })
			l.wg.Go(func() { l.carry(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		l.wg.Wait()
	})
	return l
}

func (l *line) carry(to io.WriteCloser, from io.Reader) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			if !l.silent.Load() {
				_ = to.Close() // an end is passed on, too
			}
			return
		}
		if c := l.held.Load(); c != nil {
			<-*c
		}
		if !l.silent.Load() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

func (l *line) cutSilently(t *testing.T) {
	t.Helper()
	l.silent.Store(true)
	must(t, l.ln.Close())
}

// What waits for a worker that fell silent is asked elsewhere, if it may be asked
// twice; what may not is left to whoever waits for it.
func TestGatewayTakesBackWhatWaitsForASilentWorker(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	var posts atomic.Int64
	answer := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodPost {
				posts.Add(1)
			}
			_, _ = io.WriteString(w, name)
		})
	}
	a.addHTTP(t, "app.web.0", answer("a"))
	b.addHTTP(t, "app.web.1", answer("b"))
	l := newLine(t, b.DataAddr())
	remote := b.endpoint("app.web.1")
	remote.Address = l.ln.Addr().String()
	last := a.endpoint("app.web.0")
	last.Suspect = true // so that b is asked first
	a.SetRoutes([]wire.Route{hostRoute(host, last, remote)})
	c := client(t)
	// Two connections are kept.
	var both sync.WaitGroup
	for range 4 {
		both.Go(func() {
			if res, err := c.Do(a.request(t, "GET", host, "/", nil)); err != nil {
				t.Error(err)
			} else {
				_ = res.Body.Close()
			}
		})
	}
	both.Wait()
	before := posts.Load()
	l.cutSilently(t)
	ask := func(method string, timeout time.Duration) (string, error) {
		impatient := client(t)
		impatient.Timeout = timeout
		res, err := impatient.Do(a.request(t, method, host, "/", nil))
		if err != nil {
			return "", err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	waiting := func() int { return a.Stats().Waiting }
	var posted sync.WaitGroup
	posted.Go(func() {
		if got, err := ask("POST", 4*time.Second); err == nil {
			t.Errorf("a post that a dead worker took was answered: %q", got)
		}
	})
	eventually(t, "the post waits", func() bool { return waiting() == 1 })
	for range 2 {
		if got, err := ask("GET", 10*time.Second); err != nil || got != "a" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if st := a.state("app.web.1"); st != router.EndpointEjected {
		t.Errorf("b is %s", st)
	}
	posted.Wait()
	if n := posts.Load() - before; n != 0 {
		t.Errorf("the post was sent twice")
	}
	eventually(t, "nothing waits", func() bool { return waiting() == 0 })
}

// A worker that is slow to take a connection and then found to be gone takes a request
// back for both reasons at once; it goes on elsewhere, and does not wait for the
// connection that comes after all and is nobody's.
func TestTakenBackTwice(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addHTTP(t, "app.web.0", says("a"))
	b.addHTTP(t, "app.web.1", says("b"))
	l := newLine(t, b.DataAddr())
	release := l.hold()
	t.Cleanup(release)
	last, remote := a.endpoint("app.web.0"), b.endpoint("app.web.1")
	last.Suspect = true // so that b is asked first
	remote.Address = l.ln.Addr().String()
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, last, remote)})
	b.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, last, remote)})
	answer := ask(t, client(t), a.entryURL(t, "http", "/"), 1)
	e := a.endpointOf("app.web.1")
	eventually(t, "it is taken back", func() bool {
		return e.CancelAll(failure.ErrAbandoned) > 0
	})
	release()
	select {
	case got := <-answer:
		if got != "a" {
			t.Errorf("%q", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a connection that is nobody's")
	}
}
