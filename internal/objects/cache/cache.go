package cache

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/wire"
)

// Where things are in the folder of a cache.
const (
	contentDir = "content" // files by their digest
	namesDir   = "names"   // apiv1.ObjectView by the digest of namespace/name
	tmpPrefix  = "tmp-"
	maxName    = 4 << 10
)

const (
	// DefaultBytes is how much is kept where nobody says.
	DefaultBytes = 1 << 30
	// recheck is for how long a file that does not change is trusted.
	recheck = time.Hour
)

// Options of a Cache.
type Options struct {
	// Dir is for the cache alone; it is made when it is needed first.
	Dir string
	// Above is the cluster.
	Above objects.Above
	// MaxBytes of files; 0 is DefaultBytes.
	MaxBytes int64
	// Fresh is for how long an object is given out before the cluster is asked whether
	// it is still so; 0 is 0.5 s.
	Fresh time.Duration
	Log   *slog.Logger
}

// Counts since the cache was made.
type Counts struct {
	Hits, Misses, Stale, Evicted, Damaged atomic.Uint64
}

// Cache keeps objects of the cluster. Its methods may be called concurrently.
type Cache struct {
	o      Options
	Counts Counts

	asking objects.Once // of the cluster

	mu sync.Mutex // guards below
	// loaded: names and files are what the folder has.
	loaded bool
	names  map[string]*named // by namespace/name
	files  map[string]*file  // by digest
	wanted map[string]int    // who is about to open it, by key
}

// named is an object that is known.
type named struct {
	view  apiv1.ObjectView
	asked time.Time // the cluster said so; zero: not in this process
}

// file is a content that is kept.
type file struct {
	size int64
	used time.Time
	held int
	// checked says when it had its digest, and what it looked like then.
	checked time.Time
	looked  time.Time
}

// New makes a cache. It does nothing until it is asked for something.
func New(o Options) *Cache {
	o.MaxBytes, o.Fresh = cmp.Or(o.MaxBytes, DefaultBytes), cmp.Or(o.Fresh, 500*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Cache{o: o, names: map[string]*named{}, files: map[string]*file{}, wanted: map[string]int{}}
}

// Close ends what is being fetched, and waits for that.
func (c *Cache) Close() { c.asking.Close() }

// File is an open object. It stays where it is until it is closed.
type File struct {
	*os.File
	View apiv1.ObjectView
	done func()
}

// Close implements io.Closer.
func (f *File) Close() error {
	f.done()
	return f.File.Close()
}

// errDamaged: a file is not what its name says.
var errDamaged = errors.New("it is not what was put")

// Open returns an object, to be closed. Errors are *wire.Problem: 404 if it does not exist, 503
// if it is not cached and the cluster cannot be asked.
func (c *Cache) Open(ctx context.Context, namespace, name string) (*File, error) {
	if err := wire.CheckObjectName(name); err != nil {
		return nil, err
	}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("open object %s: %w", name, err)
	}
	key := namespace + "/" + name
	c.want(key, 1)
	defer c.want(key, -1)
	for try := 0; ; try++ {
		stale, err := c.refresh(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		f, err := c.open(key)
		// What was about to be opened may have been evicted, or be damaged: it is
		// fetched again, once for each.
		if f == nil && try < 3 && (errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist)) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open object %s: %w", name, err)
		}
		f.View.Stale = f.View.Stale || stale
		return f, nil
	}
}

// want counts those who are about to open an object: what is fetched for them stays until
// they have it, however many others want room.
func (c *Cache) want(key string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wanted[key] += n; c.wanted[key] == 0 {
		delete(c.wanted, key)
	}
}

// load reads what the folder has, once. If that fails, for example without free descriptors, it
// is read the next time: without the cluster nothing else has it.
func (c *Cache) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(c.o.Dir, contentDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what is kept: %w", err)
	}
	names, err := os.ReadDir(filepath.Join(c.o.Dir, namesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading what is kept: %w", err)
	}
	c.loaded = true
	for _, e := range entries {
		fi, err := e.Info()
		switch {
		case err != nil:
		case strings.HasPrefix(e.Name(), tmpPrefix): // of a fetch that did not end
			_ = os.Remove(filepath.Join(c.o.Dir, contentDir, e.Name()))
		default:
			c.files[e.Name()] = &file{size: fi.Size(), used: fi.ModTime()}
		}
	}
	for _, e := range names {
		path := filepath.Join(c.o.Dir, namesDir, e.Name())
		data, err := atomicfile.ReadBounded(path, maxName)
		if err != nil && !errors.Is(err, atomicfile.ErrTooLarge) {
			c.o.Log.Warn("what is kept of an object cannot be read now", "error", err)
			continue
		}
		var v apiv1.ObjectView
		if err == nil {
			err = json.Unmarshal(data, &v)
		}
		key := v.Namespace + "/" + v.Name
		if err != nil || nameFile(key) != e.Name() || c.files[digestOf(&v)] == nil {
			_ = os.Remove(path) // damaged, or its content is gone
			continue
		}
		c.names[key] = &named{view: v}
	}
	return nil
}

func digestOf(v *apiv1.ObjectView) string { return strings.TrimPrefix(v.Digest, "sha256:") }

func nameFile(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func (c *Cache) content(digest string) string { return filepath.Join(c.o.Dir, contentDir, digest) }

// open opens what is kept of an object. A damaged file is removed.
func (c *Cache) open(key string) (*File, error) {
	c.mu.Lock()
	n := c.names[key]
	if n == nil {
		c.mu.Unlock()
		return nil, fs.ErrNotExist
	}
	view := n.view
	digest := digestOf(&view)
	kept := c.files[digest]
	if kept == nil {
		delete(c.names, key)
		c.mu.Unlock()
		return nil, fs.ErrNotExist
	}
	kept.held++
	kept.used = time.Now()
	c.mu.Unlock()
	release := sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		kept.held--
	})
	f, err := os.Open(c.content(digest))
	if err == nil {
		if err = c.verify(f, kept, &view); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil && !errors.Is(err, errDamaged) && !errors.Is(err, fs.ErrNotExist) {
		release()
		return nil, err // it may be read the next time
	}
	if err != nil {
		release()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.names, key)
		if c.files[digest] == kept {
			c.dropLocked(digest)
		}
		if errors.Is(err, errDamaged) {
			c.Counts.Damaged.Add(1)
			c.o.Log.Warn("a cached object is damaged, it is fetched again", "object", key, "error", err)
		}
		return nil, err
	}
	return &File{File: f, View: view, done: release}, nil
}

// verify reads a file to see that it is what it should be, unless that is known.
func (c *Cache) verify(f *os.File, kept *file, v *apiv1.ObjectView) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() != v.Size {
		return fmt.Errorf("%w: it has %d bytes instead of %d", errDamaged, fi.Size(), v.Size)
	}
	c.mu.Lock()
	known := !kept.checked.IsZero() && time.Since(kept.checked) < recheck && kept.looked.Equal(fi.ModTime())
	c.mu.Unlock()
	if known {
		return nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != digestOf(v) {
		return errDamaged
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept.checked, kept.looked = time.Now(), fi.ModTime()
	return nil
}

// dropLocked removes a file that is no longer referenced.
func (c *Cache) dropLocked(digest string) {
	delete(c.files, digest)
	for key, n := range c.names {
		if digestOf(&n.view) == digest {
			c.forgetLocked(key)
		}
	}
	if err := os.Remove(c.content(digest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.o.Log.Warn("a cached object cannot be removed", "error", err)
	}
}

// refresh sees to it that what is kept of an object is what the cluster has, unless
// that was so a moment ago. One asks for all who want the same.
func (c *Cache) refresh(ctx context.Context, namespace, name string) (stale bool, err error) {
	key := namespace + "/" + name
	if c.fresh(key) {
		c.Counts.Hits.Add(1)
		return false, nil
	}
	stale, err = c.asking.Ask(ctx, key, func(ctx context.Context) (bool, error) {
		if c.fresh(key) { // somebody has asked just now
			return false, nil
		}
		return c.ask(ctx, namespace, name)
	})
	switch {
	case errors.Is(err, objects.ErrClosed):
		err = wire.Problemf(http.StatusServiceUnavailable, "ending", "try again", "the worker is ending", "%s", name)
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("waiting for object %s: %w", name, err)
	}
	return stale, err
}

// fresh says whether the cluster has said a moment ago what an object is.
func (c *Cache) fresh(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.names[key]
	return n != nil && !n.asked.IsZero() && time.Since(n.asked) < c.o.Fresh
}

// ask asks the cluster, and keeps what it says.
func (c *Cache) ask(ctx context.Context, namespace, name string) (stale bool, err error) {
	key := namespace + "/" + name
	c.mu.Lock()
	have := ""
	if n := c.names[key]; n != nil {
		have = digestOf(&n.view)
	}
	c.mu.Unlock()
	got, err := c.o.Above.Get(ctx, namespace, name, have)
	var p *wire.Problem
	switch {
	case err == nil && got.Same:
		c.Counts.Hits.Add(1)
		c.mu.Lock()
		if n := c.names[key]; n != nil {
			n.asked, n.view.Stale = time.Now(), got.View.Stale
		}
		c.mu.Unlock()
		return false, nil
	case err == nil:
		c.Counts.Misses.Add(1)
		defer func() { _ = got.Body.Close() }() // it was read, or it is broken
		return false, c.keep(got)
	case errors.As(err, &p) && !p.MayPass():
		c.forget(key)
		return false, p
	case have != "":
		c.Counts.Stale.Add(1)
		return true, nil
	case errors.As(err, &p) && p.Status != 0:
		return false, p
	}
	return false, wire.Problemf(http.StatusServiceUnavailable, "cluster-away",
		"try again when the cluster can be reached",
		"the object is not on this worker, and the cluster cannot be asked", "%s of namespace %s: %v", name, namespace,
		err)
}

// forget drops what is kept by a name. Its content goes when it is not used for
// longest, since other names may have it too.
func (c *Cache) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetLocked(key)
}

func (c *Cache) forgetLocked(key string) {
	delete(c.names, key)
	if err := os.Remove(filepath.Join(c.o.Dir, namesDir, nameFile(key))); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		c.o.Log.Warn("a cached object cannot be forgotten", "object", key, "error", err)
	}
}

// keep writes an object to the disk.
func (c *Cache) keep(got objects.Got) error {
	v := got.View
	if v.Size > c.o.MaxBytes {
		return wire.Problemf(http.StatusInsufficientStorage, "object-too-large",
			"divide it into smaller objects: a worker keeps what it reads",
			"the object does not fit on this worker", "%s has %d bytes, the cache %d", v.Name, v.Size, c.o.MaxBytes)
	}
	c.evict(v.Size, digestOf(&v))
	size, err := c.write(got)
	if err != nil {
		var p *wire.Problem
		switch {
		case errors.As(err, &p):
			return p
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return wire.Problemf(http.StatusInsufficientStorage, "disk-full", "make room on the disk of the worker",
				"the object cannot be kept on this worker", "%s: %v", v.Name, err)
		}
		return wire.Problemf(http.StatusBadGateway, "not-fetched", "try again", "the object did not come as a whole",
			"%s: %v", v.Name, err)
	}
	key := v.Namespace + "/" + v.Name
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.names {
		if len(c.names) < wire.MaxObjects {
			break
		}
		c.forgetLocked(other) // many names of few contents
	}
	c.names[key] = &named{view: v, asked: time.Now()}
	if f := c.files[digestOf(&v)]; f == nil {
		c.files[digestOf(&v)] = &file{size: size, used: time.Now()}
	} else {
		f.checked = time.Time{} // another file has its place
	}
	data, err := json.Marshal(v)
	if err == nil {
		// Whether it is there after a power cut does not matter.
		err = os.MkdirAll(filepath.Join(c.o.Dir, namesDir), 0o700)
	}
	if err == nil {
		err = atomicfile.Replace(filepath.Join(c.o.Dir, namesDir, nameFile(key)), data, 0o600)
	}
	if err != nil {
		c.o.Log.Warn("a cached object is not known after a restart", "object", key, "error", err)
	}
	return nil
}

// write puts the content of an object in its place, if it is what it should be.
func (c *Cache) write(got objects.Got) (size int64, err error) {
	dir := filepath.Join(c.o.Dir, contentDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	tmp, err := os.CreateTemp(dir, tmpPrefix)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	sum := sha256.New()
	// One byte beyond the announced size shows that there are more.
	size, err = io.Copy(io.MultiWriter(tmp, sum), io.LimitReader(got.Body, got.View.Size+1))
	if err == nil && (size != got.View.Size || hex.EncodeToString(sum.Sum(nil)) != digestOf(&got.View)) {
		c.Counts.Damaged.Add(1)
		err = wire.Problemf(http.StatusBadGateway, "other-content", "try again; if it stays so, put it again",
			"what arrived of the object is not what the cluster has",
			"%s: %d bytes with another digest than %s", got.View.Name, size, got.View.Digest)
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(tmp.Name(), c.content(digestOf(&got.View)))
}

// evict drops files until there is room for one more: those that no name stands for
// first, then those that were not used for longest. Open ones stay, and those that are about to be opened.
func (c *Cache) evict(size int64, but string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	named, wanted := map[string]bool{}, map[string]bool{}
	for key, n := range c.names {
		named[digestOf(&n.view)] = true
		if c.wanted[key] > 0 {
			wanted[digestOf(&n.view)] = true
		}
	}
	var sum int64
	var order []string
	for digest, f := range c.files {
		sum += f.size
		if f.held == 0 && digest != but && !wanted[digest] {
			order = append(order, digest)
		}
	}
	slices.SortFunc(order, func(a, b string) int {
		if named[a] != named[b] {
			return map[bool]int{false: -1, true: 1}[named[a]]
		}
		return cmp.Or(c.files[a].used.Compare(c.files[b].used), strings.Compare(a, b))
	})
	for _, digest := range order {
		if sum+size <= c.o.MaxBytes {
			return
		}
		sum -= c.files[digest].size
		c.dropLocked(digest)
		if named[digest] {
			c.Counts.Evicted.Add(1)
		}
	}
}

// Changed says that an object is another one now, as far as this worker knows.
func (c *Cache) Changed(namespace, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.names[namespace+"/"+name]; n != nil {
		n.asked = time.Time{}
	}
}

// Usage is how many files there are and what they take.
func (c *Cache) Usage() (files int, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		bytes += f.size
	}
	return len(c.files), bytes
}
