package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
)

func TestFilesThatContainerdDoesNotSee(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for _, x := range []struct {
		m    ctrd.Mounts
		path string
		says string
	}{
		{ctrd.Mounts{}, file, ""},
		{ctrd.Mounts{Root: "/proc/self/root"}, file, ""},
		{ctrd.Mounts{Root: "/proc/self/root"}, link, ""},
		{ctrd.Mounts{Root: elsewhere}, file, "containerd does not see " + file},
		{ctrd.Mounts{Root: elsewhere}, link, "containerd does not see " + link},
	} {
		err := x.m.Sees(x.path)
		if (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%+v: %s: %v", x.m, x.path, err)
		}
	}
	s := runtime.Spec{NetNS: "/proc/self/ns/net"}
	done, err := ctrd.Mounts{Root: elsewhere}.Network(&s)
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := os.Stat(s.NetNS)
	b, err2 := os.Stat("/proc/self/ns/net")
	if err1 != nil || err2 != nil || !os.SameFile(a, b) {
		t.Errorf("%s is not the namespace: %v, %v", s.NetNS, err1, err2)
	}
	done()
	if _, err := os.Stat(s.NetNS); err == nil {
		t.Errorf("%s is left", s.NetNS)
	}
}
