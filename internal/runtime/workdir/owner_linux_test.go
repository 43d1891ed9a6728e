package workdir

import (
	"os"
	"syscall"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/filecopy"
)

// All that is made for an instance is its user's, also what is made again or in memory.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: files of other users; needs root")
	}
	s := newScene(t)
	s.place.Owner = &filecopy.Owner{UID: 12345, GID: 23456}
	files := []File{
		{Path: "etc/app/conf", Content: []byte("a"), Mode: 0o600},
		{Path: "etc/key", Content: []byte("k"), Mode: 0o400, Secret: true},
	}
	volumes := []Volume{{Path: "mem/scratch", Tmpfs: api.Bytes(1 << 20)}}
	check := func(paths ...string) {
		t.Helper()
		for _, p := range paths {
			st, err := os.Stat(s.path("work/" + p))
			if err != nil {
				t.Fatal(err)
			}
			if sys := st.Sys().(*syscall.Stat_t); sys.Uid != 12345 || sys.Gid != 23456 {
				t.Errorf("%s is of %d:%d", p, sys.Uid, sys.Gid)
			}
		}
	}
	// What root has left there with the same content is given as well.
	if err := os.MkdirAll(s.path("work/etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(files, volumes); err != nil {
		t.Fatal(err)
	}
	check("etc/app", "etc/app/conf", "etc/key", "mem", "mem/scratch")
	if err := os.Chown(s.path("work/etc/app/conf"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.prepare(files, volumes); err != nil {
		t.Fatal(err)
	}
	check("etc/app/conf", "etc/key", "mem/scratch")
	if err := s.place.Replace(File{Path: "etc/key", Content: []byte("new"), Mode: 0o400, Secret: true}, 1); err != nil {
		t.Fatal(err)
	}
	check("etc/key")
}
