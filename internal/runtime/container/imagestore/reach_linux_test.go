package imagestore

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/containerd/containerd/v2/core/remotes/docker"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/registryhttp"
)

// A registry sends nobody to the worker's own addresses, neither for a token nor by a
// redirect. One that is named at such an address is asked there, and may get its tokens
// from there.
func TestRegistryLeadsNobodyHome(t *testing.T) {
	var asked atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"token": "x"}`))
	}))
	defer inside.Close()
	var lead atomic.Pointer[func(http.ResponseWriter, *http.Request)]
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*lead.Load())(w, r) }))
	defer registry.Close()
	port := registry.URL[strings.LastIndex(registry.URL, ":")+1:]
	insidePort := inside.URL[strings.LastIndex(inside.URL, ":")+1:]

	d := &Store{Settings: Settings{Hosts: t.TempDir(), Stall: registryhttp.StallAfter}}
	if err := os.Mkdir(filepath.Join(d.Hosts, "registry.test"), 0o700); err != nil {
		t.Fatal(err)
	}
	// 0.0.0.0 leads to this machine and is not a loopback address: so the registry is like
	// one that is elsewhere.
	text := fmt.Sprintf("server = \"http://0.0.0.0:%s\"\n", port)
	if err := os.WriteFile(filepath.Join(d.Hosts, "registry.test", hostsFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	resolve := func(image string) error {
		r := docker.NewResolver(docker.ResolverOptions{Hosts: d.registries(t.Context(), &runtime.Container{}, nil)})
		_, _, err := r.Resolve(t.Context(), image)
		return err
	}
	ways := map[string]func(to string) func(http.ResponseWriter, *http.Request){
		"redirect": func(to string) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
		},
		"token": func(to string) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+to+`",service="test",scope="repository:shop/web:pull"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		},
	}
	for way, f := range ways {
		for _, host := range []string{"127.0.0.1", "127.9.9.9", "[::ffff:127.0.0.1]", "localhost", "169.254.1.1", "[fe80::1]", "0.0.0.0"} {
			h := f("http://" + host + ":" + insidePort + "/token")
			lead.Store(&h)
			err := resolve("registry.test/shop/web:1")
			if err == nil || !strings.Contains(err.Error(), "the registry leads to") {
				t.Errorf("%s to %s: %v", way, host, err)
			}
		}
	}
	// A mirror on the worker, which has nothing, changes nothing for the registry.
	mirror := httptest.NewServer(http.NotFoundHandler())
	defer mirror.Close()
	d.Mirrors = map[string]string{"registry.test": mirror.URL}
	for way, f := range ways {
		h, led := f(inside.URL+"/token"), false
		first := func(w http.ResponseWriter, r *http.Request) { led = true; h(w, r) }
		lead.Store(&first)
		if err := resolve("registry.test/shop/web:1"); err == nil || !led {
			t.Errorf("%s, with a mirror: %v", way, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("it was asked there %d times", n)
	}
	for way, f := range ways {
		h := f(inside.URL + "/token")
		lead.Store(&h)
		before := asked.Load()
		_ = resolve("127.0.0.1:" + port + "/shop/web:1") // which has no such image
		if asked.Load() == before {
			t.Errorf("%s of a registry that is named at a loopback address leads nowhere", way)
		}
		h = f("http://169.254.1.1/token")
		if err := resolve("127.0.0.1:" + port + "/shop/web:1"); err == nil || !strings.Contains(err.Error(), "the registry leads to") {
			t.Errorf("%s from there to a link-local address: %v", way, err)
		}
	}
}
