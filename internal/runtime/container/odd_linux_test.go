package container

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/compression"
	imagename "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	scratch "github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// built is an image of busybox with further layers.
func built(t testing.TB, config containertest.Config, further ...v1.Layer) v1.Image {
	t.Helper()
	image, err := containertest.Build(config)
	if err == nil {
		image, err = mutate.AppendLayers(image, further...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// layerOf makes a layer of what is in an archive.
func layerOf(t testing.TB, entries []tar.Header, options ...tarball.LayerOption) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		text := e.Uname // what the file has
		e.Uname, e.Size = "", int64(len(text))
		if e.Mode == 0 {
			e.Mode = 0o755
		}
		if err := w.WriteHeader(&e); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, options...)
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

func file(name, text string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Uname: text}
}

func dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name} }

func link(kind byte, name, to string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Linkname: to}
}

// pushed pushes an image, or an index of several, and returns its name.
func (h *hub) pushed(t testing.TB, repo string, what any) string {
	t.Helper()
	tag, err := imagename.NewTag(h.host + "/" + repo)
	if err != nil {
		t.Fatal(err)
	}
	switch x := what.(type) {
	case v1.Image:
		err = remote.Write(tag, x)
	case v1.ImageIndex:
		err = remote.WriteIndex(tag, x)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tag.String()
}

// indexOf has images for machines ("linux/amd64"), and for each what build tools put
// beside them: an attestation, which is an image for no machine.
func indexOf(t testing.TB, images map[string]v1.Image) v1.ImageIndex {
	t.Helper()
	index := mutate.IndexMediaType(scratch.Index, types.OCIImageIndex)
	for name, image := range images {
		platform, err := v1.ParsePlatform(name)
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index,
			mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}},
			mutate.IndexAddendum{Add: attestation(t), Descriptor: v1.Descriptor{
				Platform:    &v1.Platform{OS: "unknown", Architecture: "unknown"},
				Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest"},
			}})
	}
	return index
}

func attestation(t testing.TB) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(mutate.MediaType(scratch.Image, types.OCIManifestSchema1), layerOf(t, []tar.Header{file("statement", "made by a test")}, tarball.WithMediaType("application/vnd.in-toto+json")))
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// TestOddImages pulls and runs images as build tools make them when they are not made by
// hand: of very many layers, with an index, compressed otherwise, with links that lead out.
func TestOddImages(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	h := newHub(t)
	var many []v1.Layer
	for n := range 99 {
		many = append(many, layerOf(t, []tar.Header{dir("f"), file(fmt.Sprintf("f/%d", n), ""), file("top", fmt.Sprint(n)), file(fmt.Sprintf("f/.wh.%d", n-1), "")}))
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("../", 20)
	tricks := []v1.Layer{
		layerOf(t, []tar.Header{dir("keep"), file("keep/a", "a"), file("gone", "x"), dir("hidden"), file("hidden/x", "x"), link(tar.TypeLink, "same", "keep/a")}),
		layerOf(t, []tar.Header{file(".wh.gone", ""), dir("hidden"), file("hidden/.wh..wh..opq", ""), file("hidden/y", "y"),
			link(tar.TypeSymlink, "way", up+outside[1:]), link(tar.TypeSymlink, "loop", "loop"), link(tar.TypeSymlink, "away", outside),
			file("way/in", "in"), file("away/in", "in"), file(up+outside[1:]+"/up", "up"), file("mine", "mine"), link(tar.TypeLink, "tied", up+"mine"), file("keep/.wh.nothing", "")}),
	}
	one := built(t, containertest.Config{Cmd: []string{"/bin/echo", "of this machine"}})
	other := built(t, containertest.Config{Architecture: "s390x", Cmd: []string{"true"}})
	here := "linux/" + goruntime.GOARCH
	nothing, err := mutate.Config(scratch.Image, v1.Config{Cmd: []string{"/bin/true"}})
	if err != nil {
		t.Fatal(err)
	}
	if nothing, err = mutate.ConfigFile(nothing, &v1.ConfigFile{OS: "linux", Architecture: goruntime.GOARCH, Config: v1.Config{Cmd: []string{"/bin/true"}}}); err != nil {
		t.Fatal(err)
	}
	compact := layerOf(t, []tar.Header{file("said", "zstd")}, tarball.WithCompression(compression.ZStd), tarball.WithMediaType(types.OCILayerZStd))
	byDigest, err := one.Digest()
	if err != nil {
		t.Fatal(err)
	}
	h.pushed(t, "odd/one:1", one)
	for name, x := range map[string]struct {
		image   any
		command string
		out     string // of the command
		says    string // where it does not come so far
	}{
		"many layers": {built(t, containertest.Config{}, many...), "ls /f; cat /top", "98\n98", ""},
		"tricks": {
			built(t, containertest.Config{}, tricks...),
			"cat keep/a same; ls hidden; cat gone 2>/dev/null || echo no; readlink way >/dev/null && echo link; cat tied", "aay\nno\nlink\nmine", "",
		},
		"zstd":           {built(t, containertest.Config{}, compact), "cat said", "zstd", ""},
		"an index":       {indexOf(t, map[string]v1.Image{here: one, "linux/s390x": other}), "", "of this machine\n", ""},
		"no layers":      {nothing, "", "", "command not found"},
		"no directory":   {built(t, containertest.Config{WorkingDir: "/not/there", Cmd: []string{"pwd"}}), "", "/not/there\n", ""},
		"a file as home": {built(t, containertest.Config{WorkingDir: "/etc/passwd", Cmd: []string{"pwd"}}), "", "", "did not start"},
	} {
		t.Run(name, func(t *testing.T) {
			repo := "odd/" + strings.ReplaceAll(name, " ", "-") + ":1"
			s := specOf(t, h.pushed(t, repo, x.image))
			s.Dir = ""
			if x.command != "" {
				s.Command, s.Dir = []string{"/bin/sh", "-c", x.command}, "/"
			}
			if fetched(t, d, s, name, "") != nil {
				return
			}
			if x.says != "" {
				task, err := d.Start(t.Context(), s)
				if err == nil || !strings.Contains(err.Error(), x.says) {
					t.Errorf("%v, %v, want %q", task, err, x.says)
				}
				return
			}
			if out, e := run(t, d, s); out != x.out || e.Code != 0 {
				t.Errorf("%q, want %q; %+v", out, x.out, e)
			}
		})
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
		t.Errorf("an image has written beside itself: %v, %v", list, err)
	}
	s := specOf(t, h.host+"/odd/one@"+byDigest.String())
	if fetched(t, d, s, "by digest", "") == nil {
		if out, _ := run(t, d, s); out != "of this machine\n" {
			t.Errorf("by digest: %q", out)
		}
	}
	name := h.pushed(t, "odd/others:1", indexOf(t, map[string]v1.Image{"linux/s390x": other, "linux/riscv64": other}))
	_ = fetched(t, d, specOf(t, name), "an index of others", "is not made for this machine ("+here+"): it is for linux/riscv64, linux/s390x")
	empty(t, c)
}

// What a registry has lost a part of is not called unknown; what its manifest says of a
// part is not believed where nothing could hold it.
func TestImagesThatLackSomething(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	h := newHub(t)
	name, size := h.push(t, "shop/web:1", containertest.Config{}, 1<<20)
	h.now(func(w http.ResponseWriter, r *http.Request, plain http.Handler) bool {
		if isBlob(r) && int64(len(whole(r, plain))) == size {
			http.NotFound(w, r)
			return true
		}
		return false
	})
	_ = fetched(t, d, specOf(t, name), "a layer is gone", "has not all of "+name)
	noImage(t, d)
	empty(t, c)
}

// Images that have layers in common are pulled at the same time.
func TestPullsAtOnce(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	h := newHub(t)
	common := layerOf(t, []tar.Header{file("common", strings.Repeat("common ", 1<<18))}, tarball.WithCompressionLevel(0))
	const many = 4
	var names []string
	for n := range many {
		names = append(names, h.pushed(t, fmt.Sprintf("shop/web:%d", n), built(t, containertest.Config{Cmd: []string{"/bin/echo", fmt.Sprint(n)}}, common)))
	}
	h.sent.Store(0)
	var wg sync.WaitGroup
	for _, name := range names {
		for range 2 { // two services of one image, too
			wg.Go(func() { _ = fetched(t, d, specOf(t, name), name, "") })
		}
	}
	wg.Wait()
	for n, name := range names {
		if out, _ := run(t, d, specOf(t, name)); out != fmt.Sprint(n)+"\n" {
			t.Errorf("%s: %q", name, out)
		}
	}
	t.Logf("%d bytes were sent", h.sent.Load())
	empty(t, c)
}

// Who waits for a pull that another one makes is told how far it is.
func TestProgressOfAnothersPull(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	h := newHub(t)
	name, size := h.push(t, "shop/web:1", containertest.Config{}, 1<<20)
	began, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.now(func(_ http.ResponseWriter, r *http.Request, plain http.Handler) bool {
		if isBlob(r) && int64(len(whole(r, plain))) == size {
			once.Do(func() { close(began) })
			<-goOn
		}
		return false
	})
	var wg sync.WaitGroup
	wg.Go(func() { _ = fetched(t, d, specOf(t, name), "the first", "") })
	<-began
	told := make(chan string)
	wg.Go(func() {
		if err := d.Fetch(t.Context(), specOf(t, name), func(step string) { told <- step }); err != nil {
			t.Error(err)
		}
		close(told)
	})
	if step := <-told; !strings.HasPrefix(step, "pulling "+name+": 0 of ") {
		t.Errorf("it is told %q", step)
	}
	close(goOn)
	for step := range told {
		t.Logf("it is told %q", step)
	}
	wg.Wait()
	empty(t, c)
}

// What `docker save` and tools that write OCI layouts make is loaded, with the names in
// it or one that is given.
func TestArchives(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	image := built(t, containertest.Config{Cmd: []string{"/bin/echo", "loaded"}})
	here := "linux/" + goruntime.GOARCH
	for name, x := range map[string]struct {
		index v1.ImageIndex
		give  string
		says  string
	}{
		"one without a name": {mutate.AppendManifests(scratch.Index, mutate.IndexAddendum{Add: image}), "shop:1", ""},
		"no name is given":   {mutate.AppendManifests(scratch.Index, mutate.IndexAddendum{Add: image}), "", "give it one with --name"},
		"its own name": {mutate.AppendManifests(scratch.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Annotations: map[string]string{"io.containerd.image.name": "docker.io/library/shop:2"},
		}}), "", ""},
		"several machines": {mutate.AppendManifests(scratch.Index, mutate.IndexAddendum{Add: indexOf(t, map[string]v1.Image{here: image, "linux/s390x": image})}), "shop:3", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if _, err := layout.Write(dir, x.index); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			if err := w.AddFS(os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			names, err := d.Load(t.Context(), &b, x.give)
			if x.says != "" {
				if err == nil || !strings.Contains(err.Error(), x.says) {
					t.Errorf("%v, %v, want %q", names, err, x.says)
				}
				return
			}
			if err != nil || len(names) != 1 {
				t.Fatal(names, err)
			}
			if out, _ := run(t, d, specOf(t, names[0])); out != "loaded\n" {
				t.Errorf("%q", out)
			}
		})
	}
	for what, text := range map[string]string{"nothing": "", "rubbish": "this is no archive", "half an archive": strings.Repeat("x", 700)} {
		if names, err := d.Load(t.Context(), strings.NewReader(text), "shop:9"); err == nil {
			t.Errorf("%s: %v", what, names)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
	empty(t, c)
}
