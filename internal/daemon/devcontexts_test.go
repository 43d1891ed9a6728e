package daemon

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
)

// The contexts of verge dev are among the user's while it runs, and take nothing away.
func TestDevRegistersItsContexts(t *testing.T) {
	home, made := t.TempDir(), t.TempDir()
	p := daemonflags.Process{Getenv: func(name string) string { return map[string]string{"HOME": home}[name] }}
	dir, err := client.ContextDir(p.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	write := func(dir, name, server string) string {
		t.Helper()
		path := filepath.Join(dir, name+".yaml")
		if err := client.WriteContext(path, client.Context{Name: name, Server: server, Token: "t"}); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := map[string]string{
		"dev": write(made, "root", "https://127.0.0.1:8470"), "dev-edge": write(made, "edge", "https://127.0.0.1:1"),
		"dev-fog": write(made, "fog", "https://127.0.0.1:2"),
	}
	write(dir, "dev", "https://dev.example.org:8470") // a context of the user's own
	write(dir, "dev-edge", "https://198.18.16.1:3")   // of an earlier verge dev with the service network
	write(dir, "dev-fog", "https://127.0.0.1:3")      // of one without
	names, forget, err := register(p, []string{"dev", "dev-edge", "dev-fog"}, files)
	if err != nil || !slices.Equal(names, []string{"dev-edge", "dev-fog"}) {
		t.Fatalf("%q, %v", names, err)
	}
	want := map[string]string{"dev": "https://dev.example.org:8470", "dev-edge": "https://127.0.0.1:1",
		"dev-fog": "https://127.0.0.1:2"}
	for name, server := range want {
		if e, err := client.ReadContext(filepath.Join(dir, name+".yaml")); err != nil || e.Server != server ||
			e.Name != name {
			t.Errorf("%s is %+v, %v", name, e, err)
		}
	}
	write(dir, "dev-fog", "https://127.0.0.1:4") // another verge dev has begun
	forget()
	if left, err := client.ContextNames(dir); err != nil || !slices.Equal(left, []string{"dev-fog", "dev"}) {
		t.Errorf("at its end there are %q, %v", left, err)
	}

	home = filepath.Join(home, "none")
	names, _, err = register(p, []string{"dev"}, files)
	if _, no := os.Stat(home); err != nil || len(names) > 0 || no == nil {
		t.Errorf("without a home: %q, %v", names, err)
	}
}
