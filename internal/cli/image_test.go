package cli

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// kept are images without a containerd.
type kept struct{ list []engineapi.ImageView }

func (k *kept) List(context.Context) ([]engineapi.ImageView, error) { return k.list, nil }

func (k *kept) Load(_ context.Context, archive io.Reader, name string) ([]string, error) {
	b, err := io.ReadAll(archive)
	if err != nil {
		return nil, err
	}
	if string(b) != "archive" {
		return nil, errors.New("read the archive: it is none")
	}
	if name == "" {
		name = "docker.io/library/shop:1"
	}
	return []string{name}, nil
}

func (k *kept) Remove(_ context.Context, name string) error {
	if name == k.list[0].Name {
		return errors.New(name + " is in use by shop.web.0")
	}
	return nil
}

func (k *kept) Close() error { return nil }

func TestImages(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	f.images = func(string) ImageStore {
		return &kept{list: []engineapi.ImageView{
			{Name: "docker.io/library/shop:1", Digest: "sha256:0123", Size: 12_345_678,
				Created: f.now.Add(-50 * time.Hour), Users: []string{"shop.web.0", "shop.web.1"}},
			{Name: "docker.io/library/redis:7", Digest: "sha256:4567", Size: 400_000, Created: f.now.Add(-time.Minute)},
		}}
	}
	archive, other := f.file("shop.tar", "archive"), f.file("other.tar", "text")
	for name, args := range map[string][]string{
		"image-ls":         {"image", "ls"},
		"image-ls-wide":    {"image", "ls", "-o", "wide"},
		"image-ls-json":    {"image", "ls", "-o", "json"},
		"image-ls-name":    {"image", "ls", "-o", "name"},
		"image-load":       {"image", "load", archive},
		"image-load-name":  {"image", "load", archive, "--name", "mine:2"},
		"image-load-none":  {"image", "load", other},
		"image-load-where": {"image", "load", archive + ".gz"},
		"image-rm":         {"image", "rm", "docker.io/library/redis:7"},
		"image-rm-used":    {"image", "rm", "image/docker.io/library/shop:1"},
	} {
		f.golden(name, f.run(args...), args...)
	}
	if r := f.runWith("archive", "image", "load", "-"); r.code != 0 ||
		r.stdout != "image docker.io/library/shop:1 loaded\n" {
		t.Errorf("from standard input: %+v", r)
	}
}
