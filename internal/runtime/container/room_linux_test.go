package container

import (
	"errors"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// An image that is there, and whose files are not: where there is no room for them that is
// said, and with room they are made anew.
func TestFullDiskWhileUnpackingWhatIsThere(t *testing.T) {
	c := containertest.NeedSmall(t, 64<<20)
	d := driver(t, c)
	h := newHub(t)
	name, size := h.push(t, "shop/large:1", containertest.Config{Cmd: []string{"/bin/echo", "fits"}}, 8<<20)
	if fetched(t, d, specOf(t, name), "with room", "") != nil {
		return
	}
	out, err := c.Ctr("snapshots", "ls")
	if err != nil {
		t.Fatal(out, err)
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); strings.HasPrefix(f[0], "sha256:") {
			if out, err := c.Ctr("snapshots", "rm", f[0]); err != nil {
				t.Fatal(out, err)
			}
		}
	}
	eventually(t, "the files are gone", func() bool { return c.Resize(size+3<<20) == nil })
	d = driver(t, c) // which has not seen it before
	if err := fetched(t, d, specOf(t, name), "full", "no room for the image "+name); !errors.Is(err, runtime.ErrNoRoom) {
		t.Errorf("full: %v makes no room", err)
	}
	if err := c.Resize(64 << 20); err != nil {
		t.Fatal(err)
	}
	s := specOf(t, name)
	if fetched(t, d, s, "with room again", "") == nil {
		if out, _ := run(t, d, s); out != "fits\n" {
			t.Errorf("it says %q", out)
		}
	}
	empty(t, c)
}
