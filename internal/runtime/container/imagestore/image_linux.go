package imagestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
)

// progressEvery is how often the progress of a pull is told.
const progressEvery = time.Second

// maxImageConfig bounds what is read of an image's configuration.
const maxImageConfig = 4 << 20

// errOtherMachine is wrapped where an image is made for another kind of machine.
var errOtherMachine = errors.New("is not made for this machine")

// Fetch implements runtime.Imager.
func (st *Store) Fetch(ctx context.Context, s runtime.Spec, progress func(string)) error {
	if s.Container == nil {
		return errors.New("no image given")
	}
	name, err := FullName(s.Container.Image)
	if err != nil {
		return err
	}
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := st.conn.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	leave, err := st.Alone(ctx, name, progress)
	if err != nil {
		return err
	}
	defer leave()
	kept, err := c.ImageService().Get(ctx, name)
	switch {
	case err != nil && !ctrd.IsNotFound(err):
		return st.conn.OrAway(err)
	case err == nil && s.Container.Pull != runtime.PullAlways:
		_, err = st.resolve(ctx, c, kept) // unpacks it, which may take a while too
		return err
	case err != nil && s.Container.Pull == runtime.PullNever:
		return fmt.Errorf("the image %s is not on this worker, and pull is never: import it with verge image load", name)
	}
	if err := st.pull(ctx, c, name, s.Container, progress); err != nil {
		return err
	}
	if kept, err = c.ImageService().Get(ctx, name); err != nil {
		return st.conn.OrAway(err)
	}
	if _, err = st.resolve(ctx, c, kept); errors.Is(err, errOtherMachine) {
		// Nobody can use it here.
		if derr := c.ImageService().Delete(ctx, name); derr != nil && !ctrd.IsNotFound(derr) {
			return errors.Join(err, st.conn.OrAway(derr))
		}
	}
	return err
}

// platformsOf says for what machines an image is.
func platformsOf(ctx context.Context, c *containerd.Client, image images.Image) string {
	list, err := images.Platforms(ctx, c.ContentStore(), image.Target)
	if err != nil || len(list) == 0 {
		return "for which it is, it does not say"
	}
	var names []string
	for _, p := range list {
		names = append(names, platforms.Format(p))
	}
	slices.Sort(names)
	return "it is for " + strings.Join(slices.Compact(names), ", ")
}

// Images lists what is kept, by name.
func (st *Store) Images(ctx context.Context) ([]Image, error) {
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := st.conn.Use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	list, err := c.ImageService().List(ctx)
	if err != nil {
		return nil, st.conn.OrAway(err)
	}
	used, err := st.imageUsers(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]Image, 0, len(list))
	for _, i := range list {
		size, err := i.Size(ctx, c.ContentStore(), platforms.Only(platforms.DefaultSpec()))
		if err != nil {
			size = 0 // of another platform: its parts are not here
		}
		out = append(out,
			Image{Name: i.Name, Digest: i.Target.Digest.String(), Size: size, Created: i.CreatedAt, Users: used[i.Name]})
	}
	slices.SortFunc(out, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

func (st *Store) imageUsers(ctx context.Context, c *containerd.Client) (map[string][]string, error) {
	made, err := c.ContainerService().List(ctx)
	if err != nil {
		return nil, st.conn.OrAway(err)
	}
	used := map[string][]string{}
	for _, x := range made {
		used[x.Image] = append(used[x.Image], x.Labels[ctrd.LabelInstance])
	}
	return used, nil
}

// Load imports an OCI or docker archive, compressed or not, and returns the names
// of the images in it. name is given to an image that has none in the archive.
func (st *Store) Load(ctx context.Context, archive io.Reader, name string) ([]string, error) {
	if name != "" {
		full, err := FullName(name)
		if err != nil {
			return nil, err
		}
		name = full
	}
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := st.conn.Use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	plain, err := compression.DecompressStream(archive)
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	defer plain.Close() //nolint:errcheck // read only
	given := name
	give := func() string { // once
		defer func() { given = "" }()
		return given
	}
	list, err := c.Import(ctx, plain,
		containerd.WithImportPlatform(platforms.Only(platforms.DefaultSpec())),
		containerd.WithImageRefTranslator(func(ref string) string {
			switch {
			case strings.ContainsAny(ref, "/:"):
				if full, err := FullName(ref); err == nil {
					return full
				}
			default:
				return give()
			}
			return ""
		}),
		// What has not even a tag.
		containerd.WithDigestRef(func(digest.Digest) string { return give() }),
		containerd.WithSkipDigestRef(func(named string) bool { return named != "" }))
	if err != nil && strings.Contains(err.Error(), "might be filtered out") {
		return nil, fmt.Errorf("the image in the archive is not made for this machine (%s)", platforms.DefaultString())
	}
	if err != nil {
		return nil, fmt.Errorf("import the archive: %w", st.conn.OrAway(err))
	}
	if len(list) == 0 && name != "" {
		return nil, errors.New("no image for this machine is in the archive")
	}
	if len(list) == 0 {
		return nil, errors.New("the images in the archive have no names, or are not for this machine; give it one with --name")
	}
	var names []string
	for _, i := range list {
		image := containerd.NewImageWithPlatform(c, i, platforms.Only(platforms.DefaultSpec()))
		if err := image.Unpack(ctx, ""); err != nil {
			if ctrd.IsNotFound(err) {
				err = fmt.Errorf("it is not made for this machine (%s): %s", platforms.DefaultString(), platformsOf(ctx, c, i))
			}
			if isFull(err) {
				return names, full(i.Name, err)
			}
			return names, fmt.Errorf("unpack %s: %w", i.Name, st.conn.OrAway(err))
		}
		names = append(names, i.Name)
	}
	return names, nil
}

// RemoveImage removes an image that nothing runs of.
func (st *Store) RemoveImage(ctx context.Context, name string) error {
	full, err := FullName(name)
	if err != nil {
		return err
	}
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := st.conn.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	used, err := st.imageUsers(ctx, c)
	if err != nil {
		return err
	}
	if users := used[full]; len(users) > 0 {
		return fmt.Errorf("%s is in use by %s", full, strings.Join(users, ", "))
	}
	err = c.ImageService().Delete(ctx, full, images.SynchronousDelete())
	if ctrd.IsNotFound(err) {
		return fmt.Errorf("%w: %s", ErrNoImage, full)
	}
	return st.conn.OrAway(err)
}
