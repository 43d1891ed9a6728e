package imagestore

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
)

// pullLease begins the names of the leases that keep what an interrupted pull has
// fetched; leaseAge is how long they do.
const (
	pullLease = "verge-pull-"
	leaseAge  = 24 * time.Hour
)

// Alone lets one at a time pull an image, so that who comes second finds what the first
// has fetched. progress is told how far that is while somebody waits for it.
func (st *Store) Alone(ctx context.Context, name string, progress func(string)) (leave func(), err error) {
	st.mu.Lock()
	turn := st.pulls[name]
	if turn == nil {
		turn = &pullTurn{mine: make(chan struct{}, 1)}
		st.pulls[name] = turn
	}
	turn.users++
	st.mu.Unlock()
	done := func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		if turn.users--; turn.users == 0 {
			delete(st.pulls, name)
		}
	}
	t := time.NewTicker(progressEvery)
	defer t.Stop()
	for {
		select {
		case turn.mine <- struct{}{}:
			return func() { <-turn.mine; done() }, nil
		case <-t.C:
			if p := turn.now.Load(); p != nil {
				progress(p.words())
			}
		case <-ctx.Done():
			done()
			return nil, ctx.Err()
		}
	}
}

type pullTurn struct {
	mine  chan struct{} // holds one
	users int           // guarded by the driver's mutex
	now   atomic.Pointer[pulling]
}

// pull fetches and unpacks an image. What an interrupted one has fetched is kept for
// the next, which goes on from there.
func (st *Store) pull(ctx context.Context, c *containerd.Client, name string, what *runtime.Container,
	progress func(string)) error {
	leased, lease, err := st.lease(ctx, c, name)
	if err != nil {
		return err
	}
	told := error(nil)
	for _, trust := range []bool{true, false} {
		p := &pulling{name: name, seen: map[string]int64{}}
		st.mu.Lock()
		if turn := st.pulls[name]; turn != nil {
			turn.now.Store(p)
		}
		st.mu.Unlock()
		_, before := st.Copied()
		err := st.fetch(leased, c, p, what, trust, progress)
		wrong := errors.Is(err, errdefs.ErrFailedPrecondition) || errors.Is(err, errdefs.ErrOutOfRange) || p.tooShort(err)
		if wrong {
			p.abort(leased, c.ContentStore()) // what is there is wrong: the next begins anew
		}
		if noneForUs(err) {
			p.machines = platformsOf(leased, c, images.Image{Target: p.root})
		}
		told = st.tell(ctx, p, what, err)
		if told == nil || !p.begun() || !errors.Is(told, runtime.ErrAway) && ctx.Err() == nil {
			defer st.endLease(ctx, c, lease)
		}
		if _, after := st.Copied(); !wrong || after == before || ctx.Err() != nil {
			break
		}
		st.log.Warn("what neighbours sent of an image was wrong; it is fetched from its registry", "image", name, "error", err)
	}
	return told
}

// fetch is one try at pulling.
func (st *Store) fetch(leased context.Context, c *containerd.Client, p *pulling, what *runtime.Container, trust bool,
	progress func(string)) error {
	progress(p.words())
	pctx, stop := context.WithCancel(leased)
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(progressEvery)
		defer t.Stop()
		for {
			select {
			case <-pctx.Done():
				return
			case <-t.C:
				p.look(pctx, c.ContentStore())
				progress(p.words())
			}
		}
	})
	_, err := c.Pull(leased, p.name,
		containerd.WithResolver(st.copies(docker.NewResolver(docker.ResolverOptions{Hosts: st.registries(leased, what, &p.broke)}),
			p.name, trust)),
		containerd.WithPlatformMatcher(platforms.Only(platforms.DefaultSpec())),
		containerd.WithPullUnpack,
		containerd.WithPullLabels(map[string]string{labelPulled: "1", labelUsed: time.Now().UTC().Format(time.RFC3339)}),
		containerd.WithImageHandler(images.HandlerFunc(p.meet)),
	)
	stop()
	wg.Wait()
	return err
}

// lease keeps what a pull fetches, also when it is interrupted.
func (st *Store) lease(ctx context.Context, c *containerd.Client, name string) (context.Context, leases.Lease, error) {
	if _, err := st.endHalves(ctx, c, leaseAge, false); err != nil {
		return nil, leases.Lease{}, err
	}
	id := leaseOf(name)
	list, err := c.LeasesService().List(ctx, "id=="+id)
	if err != nil {
		return nil, leases.Lease{}, st.conn.OrAway(err)
	}
	for _, l := range list {
		if l.ID == id && time.Since(l.CreatedAt) < leaseAge {
			return leases.WithLease(ctx, id), l, nil
		}
		if l.ID == id {
			st.endLease(ctx, c, l)
		}
	}
	// It ends without this engine, too, which may be gone for good; later than by it, since
	// a pull may go on meanwhile.
	l, err := c.LeasesService().Create(ctx, leases.WithID(id),
		leases.WithLabels(map[string]string{labelPulled: name, ctrd.LabelEngine: st.mark}), leases.WithExpiration(2*leaseAge))
	if err != nil {
		return nil, l, st.conn.OrAway(err)
	}
	return leases.WithLease(ctx, id), l, nil
}

// leaseOf is the name of the lease of an image.
func leaseOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return pullLease + hex.EncodeToString(sum[:8])
}

func (st *Store) endLease(ctx context.Context, c *containerd.Client, l leases.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ctrd.AnswerWithin)
	defer cancel()
	if err := c.LeasesService().Delete(ctx, l); err != nil && !ctrd.IsNotFound(err) {
		st.log.Debug("end a lease of containerd", "lease", l.ID, "error", err)
	}
}

// tell says in words why a pull failed.
func (st *Store) tell(ctx context.Context, p *pulling, what *runtime.Container, err error) error {
	if err == nil {
		return nil
	}
	name := p.name
	has := func(part string) bool { return strings.Contains(err.Error(), part) }
	host := "its registry"
	if named, perr := reference.ParseDockerRef(name); perr == nil {
		host = reference.Domain(named)
	}
	var network net.Error
	var untrusted *tls.CertificateVerificationError
	var address *url.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, docker.ErrInvalidAuthorization), has("401 Unauthorized"), has("403 Forbidden"),
		has("insufficient_scope"):
		if what.Login == nil {
			return fmt.Errorf("registry %s wants credentials for %s, or it has no such image: "+
				"verge secret set NAME --registry %s --username USER --password-file FILE, and pull_secret: NAME in the descriptor (%w)",
				host, name, host, err)
		}
		return fmt.Errorf("registry %s refused the credentials of pull_secret for %s, or it has no such image; "+
			"set them again: verge secret set NAME --registry %s --username USER --password-file FILE (%w)",
			host, name, host, err)
	case isFull(err):
		return full(name, err)
	case errors.Is(err, errdefs.ErrFailedPrecondition), errors.Is(err, errdefs.ErrOutOfRange),
		has("unexpected commit digest"), has("failed size validation"):
		return fmt.Errorf("what registry %s sent of %s is not what its digest says; nothing of it was kept, and it is fetched anew: %w",
			host, name, err)
	case p.tooShort(err):
		return fmt.Errorf("registry %s has less of %s than its manifest says; "+
			"nothing of it was kept, and it is fetched anew: %w; push the image again",
			host, name, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("registry %s, or a mirror of it, has a certificate that this worker does not trust: %w; "+
			"name its authority in %s (ca = \"/path/to/ca.crt\")",
			host, err, filepath.Join(st.Hosts, host, hostsFile))
	case has("server gave HTTP response to HTTPS client"):
		return fmt.Errorf("registry %s, or a mirror of it, speaks http without TLS: %w; "+
			"where that is to be, write server = \"http://%s\" into %s",
			host, err, host, filepath.Join(st.Hosts, host, hostsFile))
	case errors.Is(err, errHosts):
		return err
	case has("unexpected EOF"):
		return fmt.Errorf("registry %s ended early what it sent of %s: %w (%w); the next try goes on from there", host, name,
			runtime.ErrAway, err)
	case errors.As(err, &network), errors.As(err, &address), has("500 Internal"), has("502 Bad"), has("503 Service"),
		has("504 Gateway"), has("429 Too Many"):
		return fmt.Errorf("pull image %s: %w (%w)", name, runtime.ErrAway, err)
	case errors.Is(st.conn.OrAway(err), runtime.ErrAway):
		return st.conn.OrAway(err)
	case noneForUs(err):
		return fmt.Errorf("the image %s %w (%s): %s", name, errOtherMachine, platforms.DefaultString(), p.machines)
	case errdefs.IsNotFound(err) && p.begun():
		return fmt.Errorf("registry %s has not all of %s: %w; push the image again", host, name, err)
	case errdefs.IsNotFound(err):
		return fmt.Errorf("there is no image %s in its registry; check the name and its tag", name)
	}
	return fmt.Errorf("pull image %s: %w", name, err)
}

// isFull says so of what comes from containerd in words.
func isFull(err error) bool { return strings.Contains(err.Error(), "no space left on device") }

func full(name string, err error) error {
	return fmt.Errorf("%w for the image %s on the disk of containerd: %w; "+
		"remove what is not needed (verge image ls, verge image rm), or give it a larger disk",
		runtime.ErrNoRoom, name, err)
}

// noneForUs says whether of an index of images none is for this machine. Of other things
// than images containerd says that it finds no match, too.
func noneForUs(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "no match for platform") || strings.Contains(err.Error(),
		"mismatched image rootfs and manifest layers"))
}

// pulling is how far a pull is.
type pulling struct {
	name  string
	broke atomic.Bool // a connection did, in an answer
	// machines are those that it is for, in words, where this is none of them.
	machines string

	mu   sync.Mutex
	root imagespec.Descriptor // of all that belongs to it
	seen map[string]int64     // sizes of that, by the name of its download
	blob map[string]imagespec.Descriptor
	done int64
}

// meet is called for each part of the image that is found to belong to it.
func (p *pulling) meet(ctx context.Context, desc imagespec.Descriptor) ([]imagespec.Descriptor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blob == nil {
		p.blob = map[string]imagespec.Descriptor{}
	}
	key := remotes.MakeRefKey(ctx, desc)
	p.seen[key], p.blob[key] = desc.Size, desc
	if len(p.seen) == 1 {
		p.root = desc
	}
	// What is no layer is read as a whole.
	if m := desc.MediaType; desc.Size > maxImageConfig && (images.IsManifestType(m) || images.IsIndexType(m) || images.IsConfigType(m)) {
		return nil, fmt.Errorf("its part %s (%s) has %d bytes, and at most %d are read of such", desc.Digest, m, desc.Size, maxImageConfig)
	}
	return nil, nil
}

// tooShort says whether a registry has sent all that it has of something, and that is
// less than it is to have: it ended in order, or has nothing from there on.
func (p *pulling) tooShort(err error) bool {
	if err == nil || p.broke.Load() {
		return false
	}
	return errors.Is(err, io.ErrUnexpectedEOF) && strings.Contains(err.Error(),
		"short read") || strings.Contains(err.Error(), "416 Requested Range")
}

// begun says whether anything was fetched.
func (p *pulling) begun() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen) > 0
}

// abort drops what is half fetched.
func (p *pulling) abort(ctx context.Context, store content.Store) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.blob {
		_ = store.Abort(ctx, key) // it may be whole, or not begun
	}
}

// look counts what is there.
func (p *pulling) look(ctx context.Context, store content.Store) {
	p.mu.Lock()
	blobs := make(map[string]imagespec.Descriptor, len(p.blob))
	for key, desc := range p.blob {
		blobs[key] = desc
	}
	p.mu.Unlock()
	var done int64
	loading, err := store.ListStatuses(ctx)
	if err != nil {
		return // the next look may tell
	}
	for _, l := range loading {
		if _, ours := blobs[l.Ref]; ours {
			done += l.Offset
			delete(blobs, l.Ref)
		}
	}
	for _, desc := range blobs {
		if _, err := store.Info(ctx, desc.Digest); err == nil {
			done += desc.Size
		}
	}
	p.mu.Lock()
	p.done = done
	p.mu.Unlock()
}

func (p *pulling) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all int64
	for _, size := range p.seen {
		all += size
	}
	const mb = 1e6
	switch {
	case all == 0:
		return "pulling " + p.name
	case p.done >= all:
		return "unpacking " + p.name
	}
	return fmt.Sprintf("pulling %s: %d of %d MB", p.name, int64(float64(p.done)/mb), int64(float64(all)/mb+0.5))
}
