package container

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

// imported gives containerd an image with further layers.
func imported(t testing.TB, c *containertest.Containerd, name string, config containertest.Config, entries ...tar.Header) {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := containertest.Save(archive, name, built(t, config, layerOf(t, entries))); err != nil {
		t.Fatal(err)
	}
	if err := importFile(c.Address, archive); err != nil {
		t.Fatal(err)
	}
}

// What an image says that its program writes to is writable though the root is not: with
// what the image has there, anew for each start, and nothing else is.
func TestImageVolumes(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	outside, err := os.MkdirTemp("/var/lib", "verge-outside-") // a container has a /tmp of its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outside) })
	owned := func(h tar.Header, mode int64) tar.Header {
		h.Uid, h.Gid, h.Mode = 1000, 1000, mode
		return h
	}
	imported(t, c, "verge.test/volumes:1", containertest.Config{Volumes: []string{
		"/absent/data", "/srv/db", "/srv/db/log", "/own", "/tmp", "/", "/all", "/led", "/proc/x", "/run",
	}},
		dir("srv/"), owned(dir("srv/db/"), 0o700), owned(file("srv/db/seed", "seed\n"), 0o600),
		link(tar.TypeSymlink, "all", "/"), link(tar.TypeSymlink, "led", outside))
	const look = `w() { if touch $1/new 2>/dev/null; then echo -n "$1 "; fi; }
if test -e /srv/db/new || test -e /absent/data/new; then echo -n "used "; fi
for at in / /etc /srv /absent /absent/data /srv/db /srv/db/log /own /led /tmp /run /proc; do w $at; done
echo; cat /srv/db/seed; stat -c '%u %a' /srv/db /absent/data`
	for turn := range 2 {
		s := specOf(t, "verge.test/volumes:1", "/bin/sh", "-c", look)
		s.Container.Security.Capabilities = []string{"DAC_OVERRIDE"}
		s.Container.Mounts = []runtime.Mount{{Source: t.TempDir(), Target: "/own", ReadOnly: true}}
		const want = "/absent/data /srv/db /srv/db/log /led /tmp /run \nseed\n1000 700\n0 755\n"
		if out, e := run(t, d, s); out != want || e.Code != 0 {
			t.Errorf("start %d: %q, want %q; %+v", turn, out, want, e)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("a link of the image leads out of it: %v, %v", left, err)
	}
	// To whom a directory belongs in the image may write there.
	s := specOf(t, "verge.test/volumes:1", "/bin/sh", "-c", "echo more >>/srv/db/seed; cat /srv/db/seed; touch /absent/data/x")
	s.Container.User = "web"
	if out, _ := run(t, d, s); !strings.Contains(out, "seed\nmore\n") || !strings.Contains(out, "Permission denied") {
		t.Errorf("its owner: %q", out)
	}
	imported(t, c, "verge.test/volumes:2", containertest.Config{Volumes: []string{"/etc/passwd/x"}})
	if _, err := d.Start(t.Context(), specOf(t, "verge.test/volumes:2", "true")); err == nil || !strings.Contains(err.Error(), "the image's volume /etc/passwd/x") {
		t.Errorf("in a file: %v", err)
	}
	many := containertest.Config{}
	for n := range maxImageVolumes + 1 {
		many.Volumes = append(many.Volumes, fmt.Sprintf("/v%d", n))
	}
	imported(t, c, "verge.test/volumes:3", many)
	if _, err := d.Start(t.Context(), specOf(t, "verge.test/volumes:3", "true")); err == nil || !strings.Contains(err.Error(), "says 65 volumes") {
		t.Errorf("too many: %v", err)
	}
	s = specOf(t, "verge.test/volumes:3", "true")
	s.Container.Security.WritableRoot = true
	if _, e := run(t, d, s); e.Code != 0 {
		t.Errorf("where all is writable: %+v", e)
	}
	empty(t, c)
}

// Where the files of a container cannot be mounted from here, what its image has in them is
// copied into memory.
func TestImageVolumesApart(t *testing.T) {
	c := containertest.NeedApart(t)
	d := driver(t, c)
	imported(t, c, testImage, containertest.Config{Volumes: []string{"/srv/db", "/absent"}}, dir("srv/"), dir("srv/db/"), file("srv/db/seed", "seed\n"))
	s := specOf(t, testImage, "/bin/sh", "-c", "cat /srv/db/seed; echo x >/srv/db/x && echo y >/absent/y && df -k /srv/db | tail -1 | awk '{print $2}'; touch /srv/no")
	out, _ := run(t, d, s) // of two streams, in any order
	if !strings.Contains(out, "seed\n") || !strings.Contains(out, "65536\n") || !strings.Contains(out, "Read-only file system") {
		t.Errorf("%q", out)
	}
	empty(t, c)
}

// Where nothing of an image's volumes is left to be made, containers share their root.
func TestVolumesOfTheService(t *testing.T) {
	image := &imagestore.Resolved{Config: imagespec.ImageConfig{WorkingDir: "/srv", Volumes: map[string]struct{}{"/data/db": {}, "log/": {}, "/srv/x": {}, "/datax": {}}}}
	s := specOf(t, testImage)
	for _, x := range []struct {
		targets []string
		want    []string
	}{
		{nil, []string{"/data/db", "/datax", "/log", "/srv/x"}},
		{[]string{"/data/", "x"}, []string{"/datax", "/log"}},
		{[]string{"/data/db/sub", "/log", "/srv", "/datax"}, []string{"/data/db"}},
		{[]string{"/"}, nil},
	} {
		s.Container.Mounts = nil
		for _, target := range x.targets {
			s.Container.Mounts = append(s.Container.Mounts, runtime.Mount{Target: target, Tmpfs: 4096})
		}
		if got := imageVolumes(s, image); !slices.Equal(got, x.want) {
			t.Errorf("%q: %q, want %q", x.targets, got, x.want)
		}
	}
}
