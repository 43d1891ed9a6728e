package container

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// hub is a registry whose answers a test can spoil.
type hub struct {
	host    string
	handler http.Handler
	// spoil, where it is not nil, answers instead; false: it did not.
	spoil atomic.Pointer[func(w http.ResponseWriter, r *http.Request, plain http.Handler) bool]
	sent  atomic.Int64 // bytes of blobs
	asked atomic.Int64 // requests
}

func newHub(t testing.TB) *hub {
	t.Helper()
	h, plain := &hub{}, registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	h.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked.Add(1)
		if f := h.spoil.Load(); f != nil && (*f)(w, r, plain) {
			return
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			if b := whole(r, plain); b != nil {
				// The plain one knows no range without an end, as other registries do.
				http.ServeContent(&counted{w, &h.sent}, r, "", time.Time{}, bytes.NewReader(b))
				return
			}
		}
		plain.ServeHTTP(w, r)
	})
	server := httptest.NewServer(h.handler)
	t.Cleanup(server.Close)
	h.host = strings.TrimPrefix(server.URL, "http://")
	return h
}

func (h *hub) now(f func(w http.ResponseWriter, r *http.Request, plain http.Handler) bool) {
	h.spoil.Store(&f)
}

func (h *hub) well() { h.spoil.Store(nil) }

type counted struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// push pushes an image, with a file of so many bytes that nothing makes smaller, and
// returns its name and the size of its layer.
func (h *hub) push(t testing.TB, repo string, config containertest.Config, bytes int, options ...remote.Option) (name string, layer int64) {
	t.Helper()
	var programs []string
	if bytes > 0 {
		file := filepath.Join(t.TempDir(), "ballast")
		f, err := os.Create(file) //nolint:gosec // of the test
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(f, rand.Reader, int64(bytes)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, file)
	}
	image, err := containertest.Build(config, programs...)
	if err != nil {
		t.Fatal(err)
	}
	name = h.host + "/" + repo
	tag, err := imagename.NewTag(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image, options...); err != nil {
		t.Fatal(err)
	}
	return name, sizeOf(t, image)
}

func sizeOf(t testing.TB, image v1.Image) int64 {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	size, err := layers[0].Size()
	if err != nil {
		t.Fatal(err)
	}
	return size
}

// whole is what a registry would answer without a range; nil: it has none.
func whole(r *http.Request, plain http.Handler) []byte {
	r = r.Clone(r.Context())
	r.Header.Del("Range")
	answer := httptest.NewRecorder()
	if plain.ServeHTTP(answer, r); answer.Code != http.StatusOK {
		return nil
	}
	return answer.Body.Bytes()
}

func isBlob(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
}

// fetched checks what becomes of a pull: "" is that it succeeds.
func fetched(t testing.TB, d *Driver, s runtime.Spec, what, says string) error {
	t.Helper()
	err := d.Fetch(t.Context(), s, func(string) {})
	switch {
	case says == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case says != "" && (err == nil || !strings.Contains(err.Error(), says)):
		t.Errorf("%s: %v, want %q", what, err, says)
	}
	return err
}

// noImage checks that a pull that failed has left nothing that a start could use.
func noImage(t testing.TB, d *Driver) {
	t.Helper()
	list, err := d.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if i.Name != testImage {
			t.Errorf("there is an image %s", i.Name)
		}
	}
}

// What an interrupted pull has fetched is not fetched again, also by another engine
// after a restart of containerd.
func TestPullsGoOn(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	h := newHub(t)
	name, size := h.push(t, "shop/big:1", containertest.Config{Cmd: []string{"/bin/echo", "whole"}}, 4<<20)
	s := specOf(t, name)
	part := size / 2
	var broken atomic.Bool
	h.now(func(w http.ResponseWriter, r *http.Request, plain http.Handler) bool {
		if !isBlob(r) {
			return false
		}
		layer := whole(r, plain)
		if int64(len(layer)) < part { // the configuration
			return false
		}
		if !broken.CompareAndSwap(false, true) {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(layer[:part])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if err := fetched(t, d, s, "cut off", "ended early"); !errors.Is(err, runtime.ErrAway) {
		t.Errorf("cut off: %v is nothing to be tried again", err)
	}
	noImage(t, d)
	c.Kill()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	h.well()
	h.sent.Store(0)
	d = driver(t, c)
	if fetched(t, d, s, "well again", "") == nil {
		if sent := h.sent.Load(); sent > size-part+64<<10 {
			t.Errorf("%d bytes were fetched for the rest of %d", sent, size-part)
		}
		if out, _ := run(t, d, s); out != "whole\n" {
			t.Errorf("it says %q", out)
		}
	}
	empty(t, c)
}

// A registry that lies, or sends less than it says, leaves nothing behind.
func TestSpoiledLayers(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	h := newHub(t)
	name, size := h.push(t, "shop/web:1", containertest.Config{Cmd: []string{"/bin/echo", "well"}}, 1<<20)
	spoil := func(change func([]byte) []byte) {
		h.now(func(w http.ResponseWriter, r *http.Request, plain http.Handler) bool {
			if !isBlob(r) {
				return false
			}
			b := whole(r, plain)
			if int64(len(b)) < size/2 {
				return false
			}
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(change(b)))
			return true
		})
	}
	for what, change := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)/2] },
		"longer":    func(b []byte) []byte { return append(b, "more"...) },
		"another":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
	} {
		spoil(change)
		says := "is not what its digest says"
		tries := 1
		if what == "truncated" {
			says, tries = "has less of "+name+" than its manifest says", 3
		}
		for range tries { // it is a failure of the image each time, and nobody waits for ever
			if err := fetched(t, d, specOf(t, name), what, says); errors.Is(err, runtime.ErrAway) {
				t.Errorf("%s: %v counts as nobody's failure", what, err)
			}
			noImage(t, d)
		}
	}
	h.well()
	s := specOf(t, name)
	if fetched(t, d, s, "well again", "") == nil {
		if out, _ := run(t, d, s); out != "well\n" {
			t.Errorf("it says %q", out)
		}
	}
	empty(t, c)
}

// A registry that sends nothing is given up, and tried again later.
func TestHangingRegistry(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	d.Stall = 200 * time.Millisecond
	h := newHub(t)
	name, size := h.push(t, "shop/web:1", containertest.Config{}, 1<<20)
	isLayer := func(r *http.Request, plain http.Handler) bool {
		return isBlob(r) && int64(len(whole(r, plain))) == size
	}
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	var hung atomic.Int64 // answers that were not given
	for what, hangs := range map[string]func(*http.Request, http.Handler) bool{
		"from the beginning": func(*http.Request, http.Handler) bool { return true },
		"in a layer":         isLayer,
	} {
		h.now(func(w http.ResponseWriter, r *http.Request, plain http.Handler) bool {
			if !hangs(r, plain) {
				return false
			}
			if isBlob(r) {
				w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
				_, _ = w.Write(make([]byte, 1000))
				w.(http.Flusher).Flush()
			}
			hung.Add(1)
			select {
			case <-r.Context().Done():
			case <-over:
			}
			return true
		})
		hung.Store(0)
		if err := fetched(t, d, specOf(t, name), what, "sent nothing for 200ms"); !errors.Is(err, runtime.ErrAway) {
			t.Errorf("%s: %v is nothing to be tried again", what, err)
		}
		if n := hung.Load(); n != 1 {
			t.Errorf("%s: it was waited for %d times, one after the other, before anybody was told", what, n)
		}
		noImage(t, d)
	}
	// Who does not want it any more does not wait.
	d.Stall = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	d.step = func(string) {}
	done := make(chan error, 1)
	go func() { done <- d.Fetch(ctx, specOf(t, name), func(string) { cancel() }) }()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	_ = c
}

// TestRegistryCredentials pulls from a registry that wants to know who asks.
func TestRegistryCredentials(t *testing.T) {
	var said strings.Builder
	d, c := bench(t, containertest.Config{})
	d.log = loggerTo(&said)
	h := newHub(t)
	const user, password = "puller", "hunter2-not-shown"
	h.now(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if u, p, ok := r.BasicAuth(); ok && u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	name, _ := h.push(t, "shop/private:1", containertest.Config{Cmd: []string{"/bin/echo", "let in"}}, 0,
		remote.WithAuth(&authn.Basic{Username: user, Password: password}))
	s := specOf(t, name)
	var texts []string
	note := func(err error) {
		if err != nil {
			texts = append(texts, err.Error())
		}
		noImage(t, d)
	}
	note(fetched(t, d, s, "nobody", "wants credentials for "+name))
	s.Container.Login = func(string) (string, string) { return user, password + "x" }
	note(fetched(t, d, s, "somebody else", "refused the credentials of pull_secret for "+name))
	s.Container.Login = func(host string) (string, string) {
		if host != h.host {
			t.Errorf("asked for %s", host)
			return "", ""
		}
		return user, password
	}
	if fetched(t, d, s, "the right one", "") == nil {
		if out, _ := run(t, d, s); out != "let in\n" {
			t.Errorf("it says %q", out)
		}
	}
	if all := strings.Join(append(texts, said.String()), "\n"); strings.Contains(all, password) {
		t.Errorf("the password is told: %s", all)
	}
	empty(t, c)
}

// A registry that sends who asks to somebody else for a token, as public ones do.
func TestRegistryTokens(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	h := newHub(t)
	const user, password, token = "puller", "hunter2-not-shown", "a-token"
	name, _ := h.push(t, "shop/private:1", containertest.Config{Cmd: []string{"/bin/echo", "let in"}}, 0)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password || r.FormValue("scope") != "repository:shop/private:pull" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"token": "`+token+`"}`)
	}))
	defer issuer.Close()
	h.now(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.Header.Get("Authorization") == "Bearer "+token {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+issuer.URL+`",service="test",scope="repository:shop/private:pull"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	s := specOf(t, name)
	_ = fetched(t, d, s, "nobody", "wants credentials for "+name)
	s.Container.Login = func(string) (string, string) { return user, password + "x" }
	if err := fetched(t, d, s, "somebody else", "refused the credentials of pull_secret for "+name); err != nil && strings.Contains(err.Error(), password) {
		t.Errorf("the password is told: %v", err)
	}
	s.Container.Login = func(string) (string, string) { return user, password }
	if fetched(t, d, s, "the right one", "") == nil {
		if out, _ := run(t, d, s); out != "let in\n" {
			t.Errorf("it says %q", out)
		}
	}
	empty(t, c)
}

// A mirror is asked first; what it has not, the registry itself has.
func TestMirrors(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	main, mirror := newHub(t), newHub(t)
	name, _ := main.push(t, "shop/web:1", containertest.Config{Cmd: []string{"/bin/echo", "main"}}, 0)
	only, _ := main.push(t, "shop/only:1", containertest.Config{Cmd: []string{"/bin/echo", "only"}}, 0)
	mirror.push(t, "shop/web:1", containertest.Config{Cmd: []string{"/bin/echo", "mirror"}}, 0)
	d.Mirrors = map[string]string{main.host: "http://" + mirror.host}
	for image, want := range map[string]string{name: "mirror\n", only: "only\n"} {
		s := specOf(t, image)
		if fetched(t, d, s, image, "") == nil {
			if out, _ := run(t, d, s); out != want {
				t.Errorf("%s says %q", image, out)
			}
		}
	}
	empty(t, c)
}

// All pulls of a worker together keep to its rate.
func TestPullRate(t *testing.T) {
	c := containertest.Need(t)
	h := newHub(t)
	const bytesASecond = 2 << 20
	d := New(Options{Base: t.TempDir(), Address: c.Address, Pull: engineapi.PullConfig{Rate: 8 * bytesASecond}})
	defer d.Close()
	all := int64(0)
	var names []string
	for n := range 2 {
		name, size := h.push(t, fmt.Sprintf("shop/web:%d", n), containertest.Config{}, 1<<20)
		names, all = append(names, name), all+size
	}
	began := time.Now()
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() { _ = fetched(t, d, specOf(t, name), name, "") })
	}
	wg.Wait()
	// More time than that is allowed on a busy machine, less is not.
	if least := time.Duration(float64(all-64<<10) / bytesASecond * float64(time.Second)); time.Since(began) < least {
		t.Errorf("%d bytes in %s, which is at least %s", all, time.Since(began), least)
	}
}

// An image of another machine; TestOddImages has an index of such.
func TestPullOfAnotherArchitecture(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	h := newHub(t)
	other := "s390x"
	if goruntime.GOARCH == other {
		other = "amd64"
	}
	name, _ := h.push(t, "shop/other:1", containertest.Config{Architecture: other}, 0)
	_ = fetched(t, d, specOf(t, name), other, "is not made for this machine")
	empty(t, c)
}

// Where the disk is full while an image is fetched or unpacked nothing is left of it, and
// with room it works.
func TestFullDiskWhileUnpacking(t *testing.T) {
	c := containertest.NeedSmall(t, 14<<20)
	d := driver(t, c)
	h := newHub(t)
	name, size := h.push(t, "shop/large:1", containertest.Config{Cmd: []string{"/bin/echo", "fits"}}, 6<<20)
	if size > 13<<20 {
		t.Fatalf("%d bytes would not even be fetched", size)
	}
	_ = fetched(t, d, specOf(t, name), "full", "no room for the image "+name)
	noImage(t, d)
	if out, err := c.Ctr("snapshots", "ls"); err != nil || strings.Contains(out, "Active") {
		t.Errorf("left: %s, %v", out, err)
	}
	if err := c.Resize(64 << 20); err != nil {
		t.Fatal(err)
	}
	s := specOf(t, name)
	if fetched(t, d, s, "with room", "") == nil {
		if out, _ := run(t, d, s); out != "fits\n" {
			t.Errorf("it says %q", out)
		}
	}
	empty(t, c)
}

// A containerd that is wedged takes connections and answers nothing.
func TestWedgedContainerd(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	d.conn.Timeout = 300 * time.Millisecond
	cl, release, err := d.conn.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	resume, err := c.Wedge()
	if err != nil {
		t.Fatal(err)
	}
	// On a connection that there is, and on a new one.
	for _, what := range []string{"connected", "not connected"} {
		if _, err := d.Start(t.Context(), specOf(t, testImage, "true")); !errors.Is(err, runtime.ErrAway) {
			t.Errorf("%s: start: %v", what, err)
		}
		if err := d.Fetch(t.Context(), specOf(t, testImage, "true"), func(string) {}); !errors.Is(err, runtime.ErrAway) {
			t.Errorf("%s: fetch: %v", what, err)
		}
		if release != nil {
			release()
			release = nil
		}
	}
	resume()
	d.conn.Timeout = time.Minute
	if out, e := run(t, d, specOf(t, testImage, "/bin/echo", "well")); out != "well\n" || e.Code != 0 {
		t.Errorf("%q, %+v", out, e)
	}
	empty(t, c)
}

func loggerTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
