package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// ObjectsDir is the folder of a restored data directory in which the contents of its
// objects wait for the first start, called by their digests.
const ObjectsDir = "restored-objects"

// maxContents bounds how many an archive has; each is at most wire.MaxObjectBytes.
const maxContents = 1_000_000

// contents adds those of objects, each once. Lost ones are left out: their names are in the
// archive, and reading one says what is missing.
func (w *writer) contents(ctx context.Context, c Contents, snap bus.Snapshot) {
	named, err := c.Named(snap)
	if err != nil {
		w.err = errors.Join(w.err, err)
		return
	}
	done := map[string]bool{}
	for _, o := range named {
		if w.err != nil {
			return
		}
		if done[o.Digest] {
			continue
		}
		content, err := c.Content(ctx, o)
		if errors.Is(err, bus.ErrNotFound) {
			continue
		}
		if err == nil {
			done[o.Digest] = true
			err = errors.Join(w.stream(objectPrefix+o.Digest, o, content), content.Close())
		}
		if err != nil {
			w.err = errors.Join(w.err,
				fmt.Errorf("content of object %s of namespace %s (put it again, or leave contents out: "+
					"--no-objects): %w", o.Name, o.Namespace, err))
		}
	}
}

// stream adds an entry as it is read.
func (w *writer) stream(name string, o record.Object, content io.Reader) error {
	if err := w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: o.Size,
		ModTime: w.made, Format: tar.FormatPAX}); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.tar, sum), io.LimitReader(content, o.Size))
	switch {
	case err != nil:
		return err
	case n != o.Size || hex.EncodeToString(sum.Sum(nil)) != o.Digest:
		return errors.New("it is damaged")
	}
	fmt.Fprintf(&w.sums, "%s  %s\n", o.Digest, name)
	return nil
}

var digestRE = pattern.Lazy(`^[0-9a-f]{64}$`)

// content reads that of an object.
func (w *walk) content(t *tar.Reader, h *tar.Header) (err error) {
	digest := strings.TrimPrefix(h.Name, objectPrefix)
	switch {
	case !digestRE().MatchString(digest) || w.contents == maxContents:
		return fmt.Errorf("%q is not expected there", h.Name)
	case h.Size > wire.MaxObjectBytes:
		return fmt.Errorf("%s has %d bytes, at most %d are read", h.Name, h.Size, int64(wire.MaxObjectBytes))
	}
	w.zip.left += h.Size
	sum := sha256.New()
	var to io.Writer = sum
	if w.dir != "" {
		f, err := os.OpenFile(filepath.Join(w.dir, digest), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		defer func() {
			if err == nil {
				err = f.Sync()
			}
		}()
		to = io.MultiWriter(sum, f)
	}
	n, err := io.Copy(to, t)
	switch {
	case err != nil:
		return noEOF(err)
	case n != h.Size:
		return io.ErrUnexpectedEOF
	case hex.EncodeToString(sum.Sum(nil)) != digest:
		return fmt.Errorf("%s has another content", h.Name)
	}
	w.contents++
	w.contentBytes += n
	fmt.Fprintf(&w.sums, "%s  %s\n", digest, h.Name)
	return nil
}
