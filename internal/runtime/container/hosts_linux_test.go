package container

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// What a machine says of its registries in hosts.toml, as it does for containerd and
// K3s, counts for pulls: mirrors, authorities, and a server that is elsewhere.
func TestHostsOfTheMachine(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	d.Hosts = t.TempDir()
	says := func(host, file, text string) {
		t.Helper()
		dir := filepath.Join(d.Hosts, host)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	main, mirror := newHub(t), newHub(t)
	main.push(t, "shop/web:1", containertest.Config{Cmd: []string{"/bin/echo", "main"}}, 0)
	main.push(t, "shop/only:1", containertest.Config{Cmd: []string{"/bin/echo", "only"}}, 0)
	mirror.push(t, "shop/web:1", containertest.Config{Cmd: []string{"/bin/echo", "mirror"}}, 0)
	prints := func(image, want string) {
		t.Helper()
		s := specOf(t, image)
		s.Container.Pull = runtime.PullAlways
		if fetched(t, d, s, image, "") == nil {
			if out, _ := run(t, d, s); out != want+"\n" {
				t.Errorf("%s says %q, not %q", image, out, want)
			}
		}
	}
	// A mirror, and what it does not have. A registry that there is by another name alone.
	says("registry.test", "hosts.toml", fmt.Sprintf("server = \"http://%s\"\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", main.host, mirror.host))
	prints("registry.test/shop/web:1", "mirror")
	prints("registry.test/shop/only:1", "only")

	// An authority of its own.
	tls := httptest.NewTLSServer(main.handler)
	defer tls.Close()
	host := strings.TrimPrefix(tls.URL, "https://")
	dir := strings.Replace(host, ":", "_", 1) + "_"
	says(dir, "hosts.toml", fmt.Sprintf("server = %q\n", tls.URL))
	if err := fetched(t, d, specOf(t, host+"/shop/web:1"), "an unknown authority", "has a certificate that this worker does not trust"); err != nil && !strings.Contains(err.Error(), "hosts.toml") {
		t.Errorf("what is to be done is not said: %v", err)
	}
	says(dir, "hosts.toml", fmt.Sprintf("server = %q\nca = \"ca.crt\"\n", tls.URL))
	says(dir, "ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tls.Certificate().Raw})))
	prints(host+"/shop/web:1", "main")

	// What cannot be read sends nobody to the registry itself.
	before := main.asked.Load()
	says(dir, "hosts.toml", "server = \"http://"+main.host+"\"\n[host\n")
	_ = fetched(t, d, specOf(t, host+"/shop/only:1"), "half a line", "hosts.toml:2:")
	says(dir, "hosts.toml", "server = \"http://"+main.host+"\"\nca = \"none.crt\"\n")
	_ = fetched(t, d, specOf(t, host+"/shop/only:1"), "no such file", "none.crt")
	if now := main.asked.Load(); now != before {
		t.Errorf("the registry was asked %d times", now-before)
	}
	empty(t, c)
}
