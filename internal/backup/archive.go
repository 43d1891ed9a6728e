package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/logrecord"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// Format is the newest version of archives that this build writes and reads; one
// without contents of objects has the first, which older builds read too.
const (
	Format      = 2
	formatPlain = 1
)

const kind = "verge backup"

// Names in an archive, in this order.
const (
	manifestName = "manifest.json"
	filesPrefix  = "files/"   // + path in the data directory
	storePrefix  = "store/"   // + number: a record of the store
	objectPrefix = "objects/" // + SHA-256: the content of objects
	sumsName     = "SHA256SUMS"
)

// Bounds of an archive: what a mistaken or hostile one can cost.
const (
	maxFile     = 4 << 20
	maxFiles    = 1000
	maxRecord   = bus.MaxCommitBytes + bus.MaxValueBytes
	maxArchive  = 8 << 30 // without contents of objects
	maxManifest = 64 << 10
	maxSums     = 64 << 20
)

// Manifest says what an archive is.
type Manifest struct {
	Format int    `json:"format"`
	Kind   string `json:"kind"`
	// Role is "root" or "cluster", Name the cluster's ("root" for a root), Root the
	// id of the root that they belong to.
	Role string `json:"role"`
	Name string `json:"name"`
	Root string `json:"root"`
	// Version of the build that made it.
	Version string    `json:"version"`
	Made    time.Time `json:"made"`
	// At is the revision of the store, Entries how many it holds.
	At      wire.Rev `json:"at"`
	Entries int      `json:"entries"`
	// Objects says that the contents of objects are in it.
	Objects bool `json:"objects,omitempty"`
}

// File is one file of a data directory.
type File struct {
	Path string // relative, with slashes
	Data []byte
}

// Archive is a backup that was read and found whole.
type Archive struct {
	Manifest
	Files []File
	Store bus.Snapshot
	// Contents of objects, each once, and their bytes. They are in Dir, called by their
	// digests; "" where they were only checked.
	Contents     int
	ContentBytes int64
	Dir          string
}

// Contents are what a store names and does not hold.
type Contents interface {
	// Named are the objects that a copy of the store names.
	Named(snap bus.Snapshot) ([]record.Object, error)
	// Content of one, to be closed; bus.ErrNotFound if it is gone.
	Content(ctx context.Context, o record.Object) (io.ReadCloser, error)
}

// Source is what a backup is made of.
type Source struct {
	Manifest // Format, Kind, At and Entries are filled in
	// Dir is the role's data directory, Store what it has open there.
	Dir   string
	Store bus.Store
	// Contents are to be in it; nil: they are not.
	Contents Contents
}

// Write writes an archive of the source as it is now.
func Write(ctx context.Context, w io.Writer, s Source) error {
	// The store first: a file that is newer than it has at most keys of somebody
	// whom the store does not know yet, one that is older could lack some.
	snap, err := s.Store.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("backup: copy of the store: %w", err)
	}
	files, err := collect(s.Dir)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	m := s.Manifest
	m.Format, m.Kind, m.At, m.Entries, m.Objects = formatPlain, kind, s.Store.Timeline().At(snap.Last),
		len(snap.Entries), s.Contents != nil
	if m.Objects {
		m.Format = Format
	}
	head, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	zip := gzip.NewWriter(w)
	a := &writer{tar: tar.NewWriter(zip), made: m.Made}
	a.add(manifestName, append(head, '\n'))
	for _, f := range files {
		a.add(filesPrefix+f.Path, f.Data)
	}
	n := 0
	for b, err := range logrecord.Snapshot(snap) {
		if err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		n++
		a.add(fmt.Sprintf("%s%06d", storePrefix, n), b)
	}
	if s.Contents != nil {
		a.contents(ctx, s.Contents, snap)
	}
	a.add(sumsName, a.sums.Bytes())
	if a.err == nil {
		a.err = errors.Join(a.tar.Close(), zip.Close())
	}
	if a.err != nil {
		return fmt.Errorf("backup: %w", a.err)
	}
	return nil
}

// writer adds entries until one fails.
type writer struct {
	tar  *tar.Writer
	sums bytes.Buffer
	made time.Time
	err  error
}

func (w *writer) add(name string, data []byte) {
	if w.err != nil {
		return
	}
	w.err = w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(data)),
		ModTime: w.made, Format: tar.FormatPAX})
	if w.err == nil {
		_, w.err = w.tar.Write(data)
	}
	fmt.Fprintf(&w.sums, "%s  %s\n", sum(data), name)
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// Read reads a whole archive and checks it. Its errors are for people. Contents of
// objects are checked and left out.
func Read(r io.Reader) (Archive, error) { return ReadInto(r, "") }

// ReadInto is Read that keeps the contents of objects in dir, which is there and empty.
// It is the caller's to remove, also after an error; dir "" keeps none.
func ReadInto(r io.Reader, dir string) (Archive, error) {
	var a Archive
	w := &walk{r: r, dir: dir}
	snap, err := logrecord.ReadSnapshot(w.records(func(f File) { a.Files = append(a.Files, f) }))
	if err == nil {
		err = w.whole(len(snap.Entries))
	}
	if err != nil {
		return Archive{}, damaged(err)
	}
	a.Manifest, a.Store = w.manifest, snap
	a.Contents, a.ContentBytes, a.Dir = w.contents, w.contentBytes, dir
	return a, nil
}

// Verify reads a whole archive and checks it, as Read does.
func Verify(r io.Reader) (Manifest, error) {
	a, err := Read(r)
	return a.Manifest, err
}

// damaged words why an archive cannot be used.
func damaged(err error) error {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p
	}
	const remedy = "take another backup; nothing was restored from this one"
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return wire.Problemf(0, "backup-truncated", remedy, "the backup is not complete", "it ends too early (%v)", err)
	}
	return wire.Problemf(0, "backup-damaged", remedy, "the backup is damaged", "%v", err)
}

// walk goes through an archive.
type walk struct {
	r        io.Reader
	manifest Manifest
	sums     bytes.Buffer
	files    int
	summed   bool
	zip      *bounded
	// contents of objects that were read, and where they are kept.
	contents     int
	contentBytes int64
	dir          string
}

// records are those of the store; file is given the files on the way.
func (w *walk) records(file func(File)) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		zip, err := gzip.NewReader(w.r)
		if err != nil {
			yield(nil, err)
			return
		}
		w.zip = &bounded{r: zip, left: maxArchive}
		t := tar.NewReader(w.zip)
		for {
			b, err := w.next(t, file)
			if errors.Is(err, io.EOF) && w.summed {
				// Beyond the end of the archive there is its own checksum.
				if _, err := io.Copy(io.Discard, zip); err != nil {
					yield(nil, err)
				}
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if b != nil && !yield(b, nil) {
				return
			}
		}
	}
}

// bounded fails where LimitReader would end quietly.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("it is too large")
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// next reads one entry; it returns it if it is a record of the store.
func (w *walk) next(t *tar.Reader, file func(File)) ([]byte, error) {
	h, err := t.Next()
	if err != nil {
		return nil, err
	}
	first := w.manifest.Format == 0
	name := h.Name
	var limit int64
	switch {
	case h.Typeflag != tar.TypeReg || w.summed || first != (name == manifestName):
		return nil, fmt.Errorf("%q is not expected there", name)
	case first:
		limit = maxManifest
	case name == sumsName:
		limit = maxSums
	case strings.HasPrefix(name, filesPrefix):
		limit = maxFile
	case strings.HasPrefix(name, storePrefix):
		limit = maxRecord
	case strings.HasPrefix(name, objectPrefix) && w.manifest.Objects:
		return nil, w.content(t, h)
	default:
		return nil, fmt.Errorf("%q is not expected there", name)
	}
	if h.Size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", name, h.Size, limit)
	}
	data := make([]byte, h.Size)
	if _, err := io.ReadFull(t, data); err != nil {
		return nil, noEOF(err)
	}
	if name == sumsName {
		w.summed = true
		if !bytes.Equal(data, w.sums.Bytes()) {
			return nil, errors.New("the checksums are not those of its content")
		}
		return nil, nil
	}
	fmt.Fprintf(&w.sums, "%s  %s\n", sum(data), name)
	switch {
	case first:
		return nil, w.begin(data)
	case strings.HasPrefix(name, storePrefix):
		return data, nil
	}
	p := strings.TrimPrefix(name, filesPrefix)
	if w.files++; w.files > maxFiles || path.Clean(p) != p || path.IsAbs(p) || p == ".." ||
		strings.HasPrefix(p, "../") || strings.Contains(p, "\\") {
		return nil, fmt.Errorf("%q is not a file that belongs there", name)
	}
	file(File{Path: p, Data: data})
	return nil, nil
}

// noEOF: an entry that ends early is no orderly end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin reads the manifest.
func (w *walk) begin(data []byte) error {
	if err := json.Unmarshal(data, &w.manifest); err != nil {
		return fmt.Errorf("its manifest cannot be read: %w", err)
	}
	m := w.manifest
	switch {
	case m.Kind != kind || m.Format < 1:
		return wire.Problemf(0, "not-a-backup", "give a file that verge backup has written",
			"this is not a backup of Verge", "its manifest says %.60q", m.Kind)
	case m.Format > Format:
		return wire.Problemf(0, "backup-newer", fmt.Sprintf("use verge %s or a later one", m.Version),
			"the backup was made by a newer version",
			"it has format %d, this version reads %d", m.Format, Format)
	case m.Role != "root" && m.Role != "cluster":
		return fmt.Errorf("its manifest says role %.60q", m.Role)
	case !label().MatchString(m.Name):
		return fmt.Errorf("its manifest says name %.80q", m.Name) // files are called by it
	}
	return nil
}

// label is what the name of a role can be: of DNS.
var label = pattern.Lazy(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// whole says whether all was there.
func (w *walk) whole(entries int) error {
	if !w.summed {
		return io.ErrUnexpectedEOF
	}
	if entries != w.manifest.Entries {
		return fmt.Errorf("it has %d entries, its manifest says %d", entries, w.manifest.Entries)
	}
	return nil
}
