package e2e

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// TestImagesAreFetchedOnce starts an image on four workers at once from a registry that
// wants to know who asks: one of them fetches it, the others copy it from there, and the
// password is in no file of theirs.
func TestImagesAreFetchedOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel() // it waits much more than it computes
	const user, password, ballast = "puller", "hunter2-is-not-shown", 16 << 20
	first := containertest.Need(t)
	var sent atomic.Int64
	plain := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		plain.ServeHTTP(&counting{w, &sent}, r)
	}))
	defer hub.Close()
	host := strings.TrimPrefix(hub.URL, "http://")
	file := filepath.Join(t.TempDir(), "ballast")
	data := make([]byte, ballast)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	image, err := containertest.Build(containertest.Config{Cmd: []string{"sleep", "100000"}}, file)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := imagename.NewTag(host + "/shop/web:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image, remote.WithAuth(&authn.Basic{Username: user, Password: password})); err != nil {
		t.Fatal(err)
	}
	w := newRoot(t)
	w.addCluster("edge")
	w.cluster["edge"].answers()
	const workers = 4
	for i := range workers {
		ctd := first
		if i > 0 {
			ctd = containertest.Need(t)
		}
		w.addWorker("edge", fmt.Sprintf("edge-%d", i+1), "--containerd", ctd.Address)
	}
	w.allReady()
	secret := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.root.ok("secret", "set", "registry", "--registry", host, "--username", user, "--password-file", secret)
	sent.Store(0)
	w.root.apply(fmt.Sprintf(`application: shop
services:
  web:
    runtime: container
    image: %s/shop/web:1
    pull_secret: registry
    replicas: %d
    stop: {signal: KILL}
`, host, workers))
	w.root.holds("shop", 120*time.Second)
	on := map[string]bool{}
	for _, v := range w.root.instances("shop") {
		on[v.Worker] = true
	}
	t.Logf("the registry sent %d bytes for %d workers, of an image with %d", sent.Load(), len(on), ballast)
	if len(on) != workers {
		t.Errorf("it runs on %v", on)
	}
	// What is not random of the image (busybox) has one or two megabytes.
	if most := int64(ballast + 4<<20); sent.Load() > most {
		t.Errorf("the registry sent %d bytes, at most %d were expected", sent.Load(), most)
	}
	if err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it may have been removed meanwhile
		}
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(password)) { //nolint:gosec // of the test
			t.Errorf("the password is in %s", path)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	w.root.ok("delete", "application/shop", "--timeout", "60s")
}

type counting struct {
	http.ResponseWriter
	n *atomic.Int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n.Add(int64(n))
	return n, err
}
