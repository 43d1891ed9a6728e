package cache_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/objects/cache"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// site is a cluster as its worker sees it.
type site struct {
	mu      sync.Mutex
	content map[string]string // by namespace/name
	err     error
	lie     bool
	asked   int
	sent    int // contents
}

func (s *site) Get(_ context.Context, namespace, name, have string) (objects.Got, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	content, ok := s.content[namespace+"/"+name]
	switch {
	case s.err != nil:
		return objects.Got{}, s.err
	case !ok:
		return objects.Got{}, wire.NoObject(namespace, name)
	}
	v := apiv1.ObjectView{Namespace: namespace, Name: name, Size: int64(len(content)),
		Digest: "sha256:" + digest(content), Type: "text/plain", Updated: time.Unix(1700000000, 0)}
	if have == digest(content) {
		return objects.Got{Same: true, View: v}, nil
	}
	if s.lie {
		content = strings.ToUpper(content)
	}
	s.sent++
	return objects.Got{View: v, Body: io.NopCloser(strings.NewReader(content))}, nil
}

func (s *site) Put(_ context.Context, in rest.ObjectUpload) (apiv1.ObjectView, error) {
	data, err := io.ReadAll(in.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || err != nil {
		return apiv1.ObjectView{}, errors.Join(s.err, err)
	}
	s.content[in.Namespace+"/"+in.Name] = string(data)
	return apiv1.ObjectView{Namespace: in.Namespace, Name: in.Name, Size: int64(len(data)),
		Digest: "sha256:" + digest(string(data))}, nil
}

func (s *site) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func newSite() *site {
	return &site{content: map[string]string{"shop/a": "one", "shop/b": "two", "bank/a": "money"}}
}

// always asks the cluster.
const always = time.Nanosecond

func read(c *cache.Cache, name string) (string, bool, error) {
	f, err := c.Open(context.Background(), "shop", name)
	if err != nil {
		return "", false, err
	}
	data, err := io.ReadAll(f)
	return string(data), f.View.Stale, errors.Join(err, f.Close())
}

func code(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) {
		return fmt.Sprint(p.Status, " ", p.Code)
	}
	return fmt.Sprint(err)
}

func TestReadsThroughAndKeeps(t *testing.T) {
	s, dir := newSite(), filepath.Join(t.TempDir(), "objects")
	c := cache.New(cache.Options{Dir: dir, Above: s, Fresh: always})
	defer c.Close()
	if _, err := os.Stat(dir); err == nil {
		t.Error("it makes its folder before anybody asks")
	}
	check := func(what, want string, stale bool, sent int) {
		t.Helper()
		if got, old, err := read(c, "a"); got != want || err != nil || old != stale || s.sent != sent {
			t.Errorf("%s: %q, stale=%v, %v, sent %d times", what, got, old, err, s.sent)
		}
	}
	check("first", "one", false, 1)
	check("again", "one", false, 1)
	s.set(func() { s.content["shop/a"] = "eins" })
	check("changed", "eins", false, 2)
	s.set(func() { s.err = errors.New("connection refused") })
	check("cluster away", "eins", true, 2)
	s.set(func() { s.err = wire.Problemf(429, "too-many-requests", "", "it is busy", "") })
	check("cluster busy", "eins", true, 2)
	s.set(func() { s.err = errors.New("connection refused") })
	if _, _, err := read(c, "b"); code(err) != "503 cluster-away" {
		t.Errorf("what is not kept: %v", err)
	}
	// A worker that starts without its cluster has what it had.
	c.Close()
	c = cache.New(cache.Options{Dir: dir, Above: s, Fresh: always})
	check("after a restart", "eins", true, 2)
	s.set(func() { s.err = nil })
	check("cluster back", "eins", false, 2)
	s.set(func() { delete(s.content, "shop/a") })
	if _, _, err := read(c, "a"); code(err) != "404 no-such-object" {
		t.Errorf("removed: %v", err)
	}
	s.set(func() { s.err = errors.New("connection refused") })
	if _, _, err := read(c, "a"); code(err) != "503 cluster-away" {
		t.Errorf("removed, then away: %v", err)
	}
	if _, _, err := read(c, "../a"); code(err) != "422 bad-name" {
		t.Errorf("an odd name: %v", err)
	}
}

func TestFreshIsNotAskedAgain(t *testing.T) {
	s := newSite()
	c := cache.New(cache.Options{Dir: t.TempDir(), Above: s, Fresh: time.Hour})
	defer c.Close()
	for range 5 {
		if got, _, err := read(c, "a"); got != "one" || err != nil {
			t.Fatal(got, err)
		}
	}
	if s.asked != 1 {
		t.Errorf("asked %d times", s.asked)
	}
	c.Changed("shop", "a")
	if _, _, err := read(c, "a"); err != nil || s.asked != 2 {
		t.Errorf("after it was changed here: asked %d times, %v", s.asked, err)
	}
}

// Whatever becomes of a file, nobody reads something else from it.
func TestDamagedFilesAreFetchedAgain(t *testing.T) {
	for how, damage := range map[string]func(path string) error{
		"other bytes": func(p string) error { return os.WriteFile(p, []byte("onf"), 0o600) },
		"shorter":     func(p string) error { return os.Truncate(p, 1) },
		"longer":      func(p string) error { return os.WriteFile(p, []byte("one more"), 0o600) },
		"gone":        os.Remove,
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprint(how, " ", restart), func(t *testing.T) {
				s, dir := newSite(), t.TempDir()
				c := cache.New(cache.Options{Dir: dir, Above: s, Fresh: always})
				if _, _, err := read(c, "a"); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, "content", digest("one"))
				if err := damage(path); err != nil {
					t.Fatal(err)
				}
				if how != "gone" { // the clock of the file system may be coarse
					later := time.Now().Add(time.Minute)
					if err := os.Chtimes(path, later, later); err != nil {
						t.Fatal(err)
					}
				}
				if restart {
					c.Close()
					c = cache.New(cache.Options{Dir: dir, Above: s, Fresh: always})
				}
				defer c.Close()
				if got, _, err := read(c, "a"); got != "one" || err != nil || s.sent != 2 {
					t.Errorf("%q, %v, sent %d times", got, err, s.sent)
				}
			})
		}
	}
}

func TestDamagedNamesAreForgotten(t *testing.T) {
	s, dir := newSite(), t.TempDir()
	c := cache.New(cache.Options{Dir: dir, Above: s, Fresh: always})
	for _, name := range []string{"a", "b"} {
		if _, _, err := read(c, name); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	names, err := filepath.Glob(filepath.Join(dir, "names", "*"))
	if err != nil || len(names) != 2 {
		t.Fatal(names, err)
	}
	if err := os.WriteFile(names[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "content", "tmp-1"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = cache.New(cache.Options{Dir: dir, Above: s, Fresh: always})
	defer c.Close()
	for name, want := range map[string]string{"a": "one", "b": "two"} {
		if got, _, err := read(c, name); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if n, _ := c.Usage(); n != 2 {
		t.Errorf("%d files", n)
	}
}

// What cannot be read for a moment is kept, and given out when it can be: the cluster may be
// away, and nothing else has it.
func TestFilesThatCannotBeRead(t *testing.T) {
	for _, what := range []string{"content", "names", "content/" + digest("one"), "names/" + digest("shop/a")} {
		s, dir := newSite(), t.TempDir()
		open := func() *cache.Cache { return cache.New(cache.Options{Dir: dir, Above: s, Fresh: always}) }
		c := open()
		if text, _, err := read(c, "a"); err != nil || text != "one" {
			t.Fatalf("%q, %v", text, err)
		}
		s.set(func() { s.err = errors.New("it is away") })
		path, away := filepath.Join(dir, what), filepath.Join(t.TempDir(), "away")
		if err := os.Rename(path, away); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, path); err != nil { // it leads nowhere, as for who is out of descriptors
			t.Fatal(err)
		}
		c.Close()
		c = open()
		if _, _, err := read(c, "a"); err == nil {
			t.Errorf("%s: it was read", what)
		}
		if err := errors.Join(os.Remove(path), os.Rename(away, path)); err != nil {
			t.Fatal(err)
		}
		if what == "names/"+digest("shop/a") { // that of one object is read once
			c.Close()
			c = open()
		}
		if text, stale, err := read(c, "a"); err != nil || text != "one" || !stale {
			t.Errorf("%s: %q, %t, %v", what, text, stale, err)
		}
		c.Close()
	}
}

func TestContentIsChecked(t *testing.T) {
	s, dir := newSite(), t.TempDir()
	s.lie = true
	c := cache.New(cache.Options{Dir: dir, Above: s})
	defer c.Close()
	if _, _, err := read(c, "a"); code(err) != "502 other-content" {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "content", "*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	s.set(func() { s.lie = false })
	if got, _, err := read(c, "a"); got != "one" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestSizeIsBounded(t *testing.T) {
	s, dir := newSite(), t.TempDir()
	for i := range 10 {
		s.content[fmt.Sprintf("shop/n%d", i)] = strings.Repeat(fmt.Sprint(i), 40)
	}
	s.content["shop/large"] = strings.Repeat("x", 101)
	c := cache.New(cache.Options{Dir: dir, Above: s, MaxBytes: 100, Fresh: always})
	defer c.Close()
	held, err := c.Open(t.Context(), "shop", "n0")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if got, _, err := read(c, fmt.Sprintf("n%d", i)); err != nil || len(got) != 40 {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
		if _, bytes := c.Usage(); bytes > 100 {
			t.Errorf("%d bytes are kept", bytes)
		}
	}
	if _, err := os.Stat(held.Name()); err != nil {
		t.Error("what is open was dropped")
	}
	if data, err := io.ReadAll(held); err != nil || string(data) != strings.Repeat("0", 40) {
		t.Errorf("%q, %v", data, err)
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := read(c, "large"); code(err) != "507 object-too-large" {
		t.Errorf("one that never fits: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "names", "*")); len(names) > 2 {
		t.Errorf("%d names are kept of 2 contents", len(names))
	}
}

func TestManyAtOnce(t *testing.T) {
	s := newSite()
	c := cache.New(cache.Options{Dir: t.TempDir(), Above: s, MaxBytes: 4, Fresh: always})
	defer c.Close()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for range 10 {
				name, want := "a", "one"
				if i%2 == 0 {
					name, want = "b", "two"
				}
				if got, _, err := read(c, name); got != want || err != nil {
					t.Errorf("%s: %q, %v", name, got, err)
				}
			}
		})
	}
	all.Wait()
}

func serve(t *testing.T, s *site) (base string, d *cache.Server) {
	t.Helper()
	c := cache.New(cache.Options{Dir: t.TempDir(), Above: s, Fresh: always})
	d = cache.NewServer(c, s, []byte("secret"), slog.New(slog.DiscardHandler))
	srv := httptest.NewUnstartedServer(nil)
	served := make(chan error, 1)
	go func() { served <- d.Serve(srv.Listener) }()
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), <-served); err != nil {
			t.Error(err)
		}
		c.Close()
	})
	return "http://" + srv.Listener.Addr().String(), d
}

func ask(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

func TestServer(t *testing.T) {
	s := newSite()
	s.content["shop/ten"] = "0123456789"
	s.content["shop/volumes/a.b.0/data"] = "what another instance has stored"
	base, d := serve(t, s)
	shop := base + "/" + d.Key("shop")
	tag := `"` + digest("0123456789") + `"`
	for what, c := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		want               string
	}{
		"all":            {"GET", "/shop/ten", "", nil, 200, "0123456789"},
		"head":           {"HEAD", "/shop/ten", "", nil, 200, ""},
		"range":          {"GET", "/shop/ten", "", []string{"Range", "bytes=2-4"}, 206, "234"},
		"the end":        {"GET", "/shop/ten", "", []string{"Range", "bytes=-3"}, 206, "789"},
		"from":           {"GET", "/shop/ten", "", []string{"Range", "bytes=8-"}, 206, "89"},
		"behind the end": {"GET", "/shop/ten", "", []string{"Range", "bytes=10-"}, 416, "invalid range"},
		"no range":       {"GET", "/shop/ten", "", []string{"Range", "bytes=4-2"}, 416, "invalid range"},
		"two": {"GET", "/shop/ten", "", []string{"Range", "bytes=0-0,9-9"}, 206,
			"Content-Range: bytes 9-9/10"},
		"unchanged": {"GET", "/shop/ten", "", []string{"If-None-Match", tag}, 304, ""},
		"another":   {"GET", "/shop/ten", "", []string{"If-Match", `"x"`}, 412, ""},
		"range of another": {"GET", "/shop/ten", "", []string{"Range", "bytes=2-4", "If-Range", `"x"`}, 200,
			"0123456789"},
		"none":                {"GET", "/shop/none", "", nil, 404, "no-such-object"},
		"odd name":            {"GET", "/shop/a%20b", "", nil, 422, "bad-name"},
		"another's namespace": {"GET", "/bank/a", "", nil, 403, "not-yours"},
		"put":                 {"PUT", "/shop/new", "content", nil, 200, `"size":7`},
		"put at another's":    {"PUT", "/bank/a", "mine", nil, 403, "not-yours"},
		"put an odd name":     {"PUT", "/shop/a%20b", "x", nil, 422, "bad-name"},
		"of a volume":         {"GET", "/shop/volumes/a.b.0/data", "", nil, 403, "not-yours"},
		"put into a snapshot": {"PUT", "/shop/snapshots/x", "x", nil, 403, "not-yours"},
		"put with bad digest": {"PUT", "/shop/x", "x", []string{"Content-Digest", "md5=x"}, 400, "bad-digest"},
		"delete":              {"DELETE", "/shop/a", "", nil, 405, ""},
	} {
		t.Run(what, func(t *testing.T) {
			resp, body := ask(t, c.method, shop+c.path, c.body, c.header...)
			if resp.StatusCode != c.status || !strings.Contains(body, c.want) ||
				(c.status < 300 && c.method != "PUT" && len(c.header) == 0 && body != c.want) {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
			if c.status == 200 && c.method != "PUT" &&
				(resp.Header.Get("ETag") != tag || resp.ContentLength != 10 ||
					resp.Header.Get("Content-Type") != "text/plain") {
				t.Errorf("%v", resp.Header)
			}
		})
	}
	if s.content["bank/a"] != "money" || s.content["shop/new"] != "content" {
		t.Errorf("%v", s.content)
	}
	if resp, body := ask(t, "GET", base+"/"+strings.Repeat("0", 32)+"/shop/a", ""); resp.StatusCode != 403 {
		t.Errorf("a key of nobody: %d %s", resp.StatusCode, body)
	}
	s.set(func() { s.err = errors.New("connection refused") })
	if resp, body := ask(t, "PUT", shop+"/shop/x", "x"); resp.StatusCode != 503 ||
		resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "cluster-away") {
		t.Errorf("put without a cluster: %d %s", resp.StatusCode, body)
	}
	if resp, body := ask(t, "GET", shop+"/shop/b", ""); resp.StatusCode != 503 ||
		!strings.Contains(body, "cluster-away") {
		t.Errorf("not kept, without a cluster: %d %s", resp.StatusCode, body)
	}
	if resp, body := ask(t, "GET", shop+"/shop/ten", ""); resp.StatusCode != 200 ||
		!strings.Contains(resp.Header.Get(rest.ObjectHeader), `"stale":true`) {
		t.Errorf("kept, without a cluster: %d %s %v", resp.StatusCode, body, resp.Header)
	}
}
