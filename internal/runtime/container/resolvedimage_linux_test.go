package container

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

func TestImagesWithProgramsOf32Bits(t *testing.T) {
	plain, old := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(old, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("i386-linux-gnu/ld-2.36.so", filepath.Join(old, "lib/ld-linux.so.2")); err != nil {
		t.Fatal(err)
	}
	overlay := func(dirs string) mount.Mount {
		return mount.Mount{Type: "overlay", Source: "overlay", Options: []string{"workdir=/x", "upperdir=/y", "lowerdir=" + dirs}}
	}
	for name, x := range map[string]struct {
		m      mount.Mount
		width  string
		narrow bool
	}{
		"one layer":                 {mount.Mount{Type: "bind", Source: plain}, goruntime.GOARCH, true},
		"layers":                    {overlay(plain + ":" + plain), goruntime.GOARCH, true},
		"a loader in one of them":   {overlay(plain + ":" + old), goruntime.GOARCH, false},
		"a loader":                  {mount.Mount{Type: "bind", Source: old}, goruntime.GOARCH, false},
		"of another width":          {overlay(plain), "386", false},
		"not to be seen":            {overlay(plain + ":/no/such/dir"), goruntime.GOARCH, false},
		"of no kind that we know":   {mount.Mount{Type: "erofs", Source: plain}, goruntime.GOARCH, false},
		"of a machine that is none": {overlay(plain), "", false},
	} {
		p := &imagestore.Resolved{Width: x.width}
		p.Look([]mount.Mount{x.m})
		if p.Narrow != x.narrow {
			t.Errorf("%s: %v", name, p.Narrow)
		}
	}
}
