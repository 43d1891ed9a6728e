package imagestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
)

const (
	// beginWithin is how long a neighbour that is to fetch an image may take to begin.
	beginWithin = 5 * time.Second
	// goOnWithin is how long a neighbour that fetches an image may get nothing of it.
	goOnWithin = 20 * time.Second
	// askAgain is how often a neighbour that fetches an image is asked.
	askAgain = 300 * time.Millisecond
)

var _ runtime.Copier = (*Store)(nil)

// Waits are how long other workers are waited for: until they begin to fetch, while they get
// nothing of it, and between two questions.
type Waits struct{ Begin, GoOn, Again time.Duration }

// SetWaits changes them, before anything is fetched.
func (st *Store) SetWaits(w Waits) { st.copying.Waits = w }

// copying is how parts of images are copied from other workers.
type copying struct {
	Waits
	find                 func(ctx context.Context, image string) ([]runtime.Neighbour, error)
	registry, neighbours atomic.Int64 // bytes that came from there
}

// Neighbours implements runtime.Copier.
func (st *Store) Neighbours(find func(ctx context.Context, image string) ([]runtime.Neighbour, error)) {
	st.copying.find = find
}

// Copied implements runtime.Copier.
func (st *Store) Copied() (registries, neighbours int64) {
	return st.copying.registry.Load(), st.copying.neighbours.Load()
}

// Fetching implements runtime.Copier.
func (st *Store) Fetching(image string) (done int64, ok bool) {
	name, err := FullName(image)
	if err != nil {
		return 0, false
	}
	st.mu.Lock()
	turn := st.pulls[name]
	st.mu.Unlock()
	if turn == nil {
		return 0, false
	}
	if p := turn.now.Load(); p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.done, true
	}
	return 0, true
}

// Blob implements runtime.Copier.
func (st *Store) Blob(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	dgst, err := digest.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("%.100q is no digest: %w", name, runtime.ErrGone)
	}
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := st.conn.Use(ctx)
	if err != nil {
		return nil, err
	}
	at, err := c.ContentStore().ReaderAt(ctx, imagespec.Descriptor{Digest: dgst})
	if err != nil {
		release()
		if ctrd.IsNotFound(err) {
			return nil, runtime.ErrGone
		}
		return nil, st.conn.OrAway(err)
	}
	return &blob{io.NewSectionReader(at, 0, at.Size()), sync.OnceFunc(func() {
		_ = at.Close() // it was only read
		release()
	})}, nil
}

type blob struct {
	*io.SectionReader
	done func()
}

func (b *blob) Close() error {
	b.done()
	return nil
}

// copies makes a resolver whose layers come from neighbours, where these have them. What
// a name stands for the registry says, so that nobody gets an image by asking others.
func (st *Store) copies(plain remotes.Resolver, image string, trust bool) remotes.Resolver {
	if st.copying.find == nil || !trust {
		return &copier{Resolver: plain, store: st}
	}
	return &copier{Resolver: plain, store: st, neighbours: func(ctx context.Context) []runtime.Neighbour {
		list, err := st.copying.find(ctx, image)
		if err != nil {
			st.log.Debug("nobody to copy an image from", "image", image, "why", err)
		}
		return list
	}, image: image}
}

type copier struct {
	remotes.Resolver
	store *Store
	image string
	// neighbours is nil where none are to be asked.
	neighbours func(ctx context.Context) []runtime.Neighbour

	once sync.Once
	list []runtime.Neighbour
}

// Fetcher implements remotes.Resolver.
func (c *copier) Fetcher(ctx context.Context, ref string) (remotes.Fetcher, error) {
	plain, err := c.Resolver.Fetcher(ctx, ref)
	if err != nil {
		return nil, err
	}
	return remotes.FetcherFunc(func(ctx context.Context, desc imagespec.Descriptor) (io.ReadCloser, error) {
		l := &layer{c: c, ctx: ctx, plain: plain, desc: desc}
		l.alone = c.neighbours == nil || !images.IsLayerType(desc.MediaType)
		return l, nil
	}), nil
}

// layer is read from a neighbour, and from where that ends from the registry.
type layer struct {
	c      *copier
	ctx    context.Context //nolint:containedctx // of the pull that it is a part of
	plain  remotes.Fetcher
	desc   imagespec.Descriptor
	alone  bool // no neighbour has it
	offset int64
	from   io.ReadCloser // nil: nobody was asked yet
	near   bool          // from is a neighbour
}

// Read implements io.Reader.
func (l *layer) Read(p []byte) (int, error) {
	for {
		if l.from == nil {
			if err := l.open(); err != nil {
				return 0, err
			}
		}
		n, err := l.from.Read(p)
		l.offset += int64(n)
		if l.near {
			l.c.store.copying.neighbours.Add(int64(n))
		} else {
			l.c.store.copying.registry.Add(int64(n))
		}
		if l.near && err != nil && (!errors.Is(err, io.EOF) || l.offset < l.desc.Size) && l.ctx.Err() == nil {
			l.c.store.log.Debug("a neighbour ended early what it sent of an image", "image", l.c.image, "error", err)
			_ = l.drop()
			l.alone = true // the registry has the rest
			if n > 0 {
				return n, nil
			}
			continue
		}
		return n, err
	}
}

// Seek implements io.Seeker, for what is resumed.
func (l *layer) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += l.offset
	case io.SeekEnd:
		offset += l.desc.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning of a layer")
	}
	if offset != l.offset {
		if err := l.drop(); err != nil {
			return 0, err
		}
		l.offset = offset
	}
	return offset, nil
}

// Close implements io.Closer.
func (l *layer) Close() error { return l.drop() }

func (l *layer) drop() error {
	if l.from == nil {
		return nil
	}
	err := l.from.Close()
	l.from = nil
	return err
}

func (l *layer) open() error {
	if !l.alone {
		if from := l.ask(); from != nil {
			l.from, l.near = from, true
			return nil
		}
		l.alone = true
	}
	from, err := l.plain.Fetch(l.ctx, l.desc)
	if err != nil {
		return err
	}
	if l.offset > 0 {
		s, ok := from.(io.Seeker)
		if !ok {
			return errors.Join(errors.New("the registry cannot go on where a layer ended"), from.Close())
		}
		if _, err := s.Seek(l.offset, io.SeekStart); err != nil {
			return errors.Join(err, from.Close())
		}
	}
	l.from, l.near = from, false
	return nil
}

// ask asks the neighbours until one has the layer, or none is about to have it.
func (l *layer) ask() io.ReadCloser {
	l.c.once.Do(func() { l.c.list = l.c.neighbours(l.ctx) })
	c, began := &l.c.store.copying, time.Now()
	most, moved := int64(-1), began
	asked := l.c.list
	for len(asked) > 0 && l.ctx.Err() == nil {
		var again []runtime.Neighbour
		for _, n := range asked {
			from, err := n.Blob(l.ctx, l.c.image, l.desc.Digest.String(), l.offset)
			var fetching *runtime.Fetching
			switch {
			case err == nil:
				l.c.store.log.Debug("a layer is copied", "image", l.c.image, "digest", l.desc.Digest.String(), "from", n.Name())
				return from
			case errors.As(err, &fetching):
				if fetching.Done > most {
					most, moved = fetching.Done, time.Now()
				}
				if time.Since(moved) < c.GoOn {
					again = append(again, n)
				}
			case n.Pending() && time.Since(began) < c.Begin:
				again = append(again, n)
			}
		}
		if asked = again; len(asked) == 0 {
			break
		}
		t := time.NewTimer(c.Again)
		select {
		case <-l.ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
	return nil
}
