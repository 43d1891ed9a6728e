package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
)

// Named are the objects that a copy of the store names and that this tier owns; what is a
// copy of the tier above is not worth keeping.
func (s *Store) Named(snap bus.Snapshot) (out []record.Object, err error) {
	for _, e := range snap.List(keyObject) {
		var r record.Object
		if err := records.Load(e, &r); err != nil {
			u := &unread{e.Key, err}
			s.o.Log.Error("the content of an object is not in the backup: " + u.problem())
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// Content of an object of Named.
func (s *Store) Content(ctx context.Context, r record.Object) (io.ReadCloser, error) {
	return s.o.Blobs.Open(ctx, bus.Blob{ID: r.Blob, Size: r.Size, Digest: r.Digest})
}

// restore takes over the restored contents of names whose blob is missing. A problem with one is
// logged, and stops neither the others nor the role: reading it says that it has to be put again.
// If the process ends meanwhile, the next start continues.
func (s *Store) restore(ctx context.Context, there map[string]bool) error {
	dir := s.o.Restored
	if dir == "" {
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	all, lost, err := s.records(ctx, keyObject)
	if err != nil {
		return fmt.Errorf("open the object store: %w", err)
	}
	whole := len(lost) == 0 // else what it names may be there, and it be read one day
	for i := range all {
		if r := &all[i]; !there[r.Blob] {
			if err := s.takeOver(ctx, filepath.Join(dir, r.Digest), r); err != nil {
				whole = whole && !errors.Is(err, bus.ErrFull)
				s.o.Log.Warn("the content of an object was not restored", "namespace", r.Namespace, "object", r.Name,
					"why", err)
			}
		}
	}
	if !whole {
		s.o.Log.Warn("contents of objects wait until there is room on the disk and all records of objects can be "+
			"read, for the next start", "folder", dir)
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		s.o.Log.Warn("what was restored could not be removed", "folder", dir, "why", err)
	}
	return nil
}

func (s *Store) takeOver(ctx context.Context, path string, r *record.Object) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("the backup has none")
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	blob, err := s.o.Blobs.Write(ctx, f, r.Size)
	if err != nil {
		return err
	}
	if blob.Digest != r.Digest || blob.Size != r.Size {
		s.drop(ctx, blob.ID)
		return errors.New("it is damaged")
	}
	next := *r
	next.Blob = blob.ID
	return s.commit(ctx, keyObject, &next) // if that fails the next start removes the blob
}
