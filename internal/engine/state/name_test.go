package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// What a worker makes is named after its absolute path, unless something of it runs that was
// named after a relative one.
func TestName(t *testing.T) {
	parent := t.TempDir()
	t.Chdir(parent)
	is := func(dir, want string) {
		t.Helper()
		if got, err := Name(dir); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", dir, got, err, want)
		}
	}
	absolute := filepath.Join(parent, "data")
	is("data", absolute)
	is("./data/", absolute)
	is(absolute, absolute)
	if err := os.MkdirAll("data/instances/shop.web.0", 0o700); err != nil {
		t.Fatal(err)
	}
	is("data", absolute)
	runs := func(named string) string {
		t.Helper()
		group := filepath.Join(parent, "cgroup", "verge", wire.Mark(named)[:12], "shop.web.0-1")
		rec := Record{V: wire.Version, Order: wire.Order{ID: "shop.web.0", Spec: &api.Service{}},
			Handle: &runtime.Handle{PID: 1, Cgroup: group}}
		if err := rec.Write("data/instances/shop.web.0/" + RecordName); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(group, 0o700); err != nil {
			t.Fatal(err)
		}
		return group
	}
	runs(absolute)
	is("data", absolute)
	for _, named := range []string{"data", "data#container"} {
		group := runs(named)
		is("data", "data")
		if err := os.Remove(group); err != nil { // as a boot does, or its end
			t.Fatal(err)
		}
		is("data", absolute)
	}
}
