package imagestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
)

// Bounds of what is kept in memory: images, and users of one.
const (
	maxResolved = 64
	maxUsers    = 16
)

// askImageAgain is after how long a name may stand for another image. One that somebody has
// removed meanwhile has no files to make a container of, and is fetched again.
const askImageAgain = time.Second

// Resolved is what a start needs of an unpacked image. It is true for as long as
// the name stands for the same content: reading it anew would be a dozen calls of
// containerd for each start.
type Resolved struct {
	asked       time.Time // when its name stood for it; guarded by the store's mutex
	Name        string
	target      digest.Digest
	Chain       string // the snapshot that its layers make
	Snapshotter string
	Config      imagespec.ImageConfig
	Width       string // its architecture

	looked sync.Once
	Narrow bool // it has no programs of 32 bits on a machine of 64; after looked
	// EmptyTmp: it has nothing in its /tmp; after looked.
	EmptyTmp bool

	mu    sync.Mutex
	users map[string]specs.User // by what a service says
}

// Resolve returns the image of s, unpacked. What its name stands for is asked again after a
// while only: a start follows upon a fetch, and each question is a hundredth of a start.
func (st *Store) Resolve(ctx context.Context, c *containerd.Client, s runtime.Spec) (*Resolved, error) {
	name, err := FullName(s.Container.Image)
	if err != nil {
		return nil, err
	}
	st.mu.Lock()
	known := st.resolved[name]
	sure := known != nil && time.Since(known.asked) < askImageAgain
	st.mu.Unlock()
	if sure {
		return known, nil
	}
	kept, err := c.ImageService().Get(ctx, name)
	if ctrd.IsNotFound(err) {
		return nil, fmt.Errorf("the image %s is not on this worker; import it with verge image load", name)
	}
	if err != nil {
		return nil, st.conn.OrAway(err)
	}
	return st.resolve(ctx, c, kept)
}

// resolve returns an image that is kept, unpacked.
func (st *Store) resolve(ctx context.Context, c *containerd.Client, kept images.Image) (*Resolved, error) {
	name, asked := kept.Name, time.Now()
	st.mu.Lock()
	known := st.resolved[name]
	if known != nil && known.target == kept.Target.Digest {
		known.asked = asked
		st.mu.Unlock()
		return known, nil
	}
	st.mu.Unlock()
	image := containerd.NewImageWithPlatform(c, kept, platforms.Only(platforms.DefaultSpec()))
	desc, err := image.Config(ctx)
	if err != nil {
		if ctrd.IsNotFound(err) {
			return nil, fmt.Errorf("the image %s %w (%s): %s", name, errOtherMachine, platforms.DefaultString(), platformsOf(ctx, c, kept))
		}
		return nil, st.conn.OrAway(err)
	}
	if desc.Size > maxImageConfig {
		return nil, fmt.Errorf("the configuration of image %s has %d bytes", name, desc.Size)
	}
	b, err := content.ReadBlob(ctx, c.ContentStore(), desc)
	if err != nil {
		return nil, fmt.Errorf("read image %s: %w", name, st.conn.OrAway(err))
	}
	var config imagespec.Image
	if err := json.Unmarshal(b, &config); err != nil {
		return nil, fmt.Errorf("the configuration of image %s: %w", name, err)
	}
	if a := config.Architecture; a != "" && a != goruntime.GOARCH && narrower[goruntime.GOARCH] != a {
		return nil, fmt.Errorf("the image %s %w: it is for %s, this machine is %s", name, errOtherMachine, a, goruntime.GOARCH)
	}
	unpacked, err := image.IsUnpacked(ctx, "")
	if err == nil && !unpacked {
		err = image.Unpack(ctx, "")
	}
	if err != nil && isFull(err) {
		return nil, full(name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("unpack image %s: %w", name, st.conn.OrAway(err))
	}
	p := &Resolved{
		asked: asked, Name: name, target: kept.Target.Digest, Chain: identity.ChainID(config.RootFS.DiffIDs).String(),
		Config: config.Config, Width: config.Architecture, users: map[string]specs.User{},
	}
	if p.Snapshotter, err = c.GetLabel(ctx, defaults.DefaultSnapshotterNSLabel); err != nil {
		return nil, st.conn.OrAway(err)
	}
	if p.Snapshotter == "" {
		p.Snapshotter = defaults.DefaultSnapshotter
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.resolved) >= maxResolved {
		clear(st.resolved)
	}
	st.resolved[name] = p
	return p, nil
}

// Forget makes the next start read an image anew.
func (st *Store) Forget(p *Resolved) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.resolved[p.Name] == p {
		delete(st.resolved, p.Name)
	}
}

// narrower are the architectures of 32 bits that machines of 64 run, too.
var narrower = map[string]string{"arm64": "arm", "amd64": "386"}

// loaders of programs of 32 bits, on machines of 64.
var loaders = []string{
	"lib/ld-linux.so.2", "usr/lib/ld-linux.so.2", "lib32/ld-linux.so.2", "usr/lib32/ld-linux.so.2",
	"lib/ld-musl-i386.so.1", "usr/lib/ld-musl-i386.so.1",
	"lib/ld-linux.so.3", "usr/lib/ld-linux.so.3", "lib/ld-linux-armhf.so.3", "usr/lib/ld-linux-armhf.so.3",
	"lib/ld-musl-armhf.so.1", "usr/lib/ld-musl-armhf.so.1",
}

// Look finds out whether an image is narrow, and whether its /tmp is empty, by the
// mounts of its files. What cannot be seen from here is not.
func (p *Resolved) Look(mounted []mount.Mount) {
	p.looked.Do(func() {
		if len(mounted) == 0 {
			return
		}
		dirs := layers(mounted[len(mounted)-1])
		p.Narrow, p.EmptyTmp = len(dirs) > 0 && p.Width == goruntime.GOARCH, len(dirs) > 0
		for _, dir := range dirs {
			p.Narrow = p.Narrow && !hasLoader(dir)
			p.EmptyTmp = p.EmptyTmp && !hasTmp(dir)
		}
	})
}

// hasTmp says so, too, of a directory that cannot be looked into.
func hasTmp(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return true
	}
	defer root.Close() //nolint:errcheck // nothing was written
	f, err := root.Open("tmp")
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil { // a link that leads elsewhere, say
		return true
	}
	defer f.Close() //nolint:errcheck // nothing was written
	_, err = f.ReadDir(1)
	return !errors.Is(err, io.EOF)
}

// layers are the directories of which a mount is made.
func layers(m mount.Mount) (out []string) {
	if m.Type == "bind" {
		return []string{m.Source}
	}
	for _, o := range m.Options {
		if list, ok := strings.CutPrefix(o, "lowerdir="); ok && m.Type == "overlay" {
			out = strings.Split(list, ":")
		}
	}
	return out
}

// hasLoader says so, too, of a directory that cannot be looked into.
func hasLoader(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return true
	}
	defer root.Close() //nolint:errcheck // nothing was written
	return slices.ContainsFunc(loaders, func(name string) bool {
		_, err := root.Lstat(name)
		return err == nil
	})
}
