package filecopy

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// temporary begins the name that a file has until it is complete.
const temporary = ".verge-cp-"

// Target is where something is put.
type Target struct {
	Root *os.Root
	// Path in Root. If it is a directory that is there, what is copied gets Name in it,
	// or, where Name is "", what is in a copied directory is put into it.
	Path, Name string
	// Within: Path ended with a slash, so it has to be a directory.
	Within bool
	// Owner gets what is made; nil is this process.
	Owner *Owner
	// Room says how many bytes may still be written to the file system that a file is
	// in, which is empty yet; nil: as much as there is.
	Room func(f *os.File) (int64, error)
	// Sync lets all that was written to the file system of a file reach its disk. It is
	// called once for each of them, before Unpack returns nil; nil: the system does it
	// in its own time.
	Sync func(f *os.File) error
}

// Owner of files.
type Owner struct{ UID, GID int }

// Unpack puts what Pack wrote to r into its place.
func Unpack(ctx context.Context, r io.Reader, t Target) (Summary, error) {
	u := unpacker{ctx: ctx, Target: t, systems: map[uint64]*os.File{}}
	defer u.close()
	tr := tar.NewReader(reader{ctx, r})
	for entries := 0; ; entries++ {
		h, err := tr.Next()
		switch {
		case ctx.Err() != nil:
			return u.Summary, ctx.Err()
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return u.Summary, fmt.Errorf("what is copied broke off: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return u.Summary, fmt.Errorf("read what is copied: %w", err)
		case h.Typeflag == tar.TypeXGlobalHeader && h.PAXRecords["comment"] == lastEntry && entries > 0:
			return u.Summary, u.finish()
		case entries >= MaxEntries:
			return u.Summary, fmt.Errorf("there are more than %d files and directories", MaxEntries)
		}
		if err := u.entry(tr, h, entries == 0); err != nil {
			return u.Summary, err
		}
	}
}

type unpacker struct {
	Summary
	Target
	ctx  context.Context //nolint:containedctx // of this one call
	base string          // what "." of the stream is in the root
	made []made
	// systems are the file systems that were written to, each by an open file.
	systems map[uint64]*os.File
}

// made is a directory that was made, and what it is to be like in the end.
type made struct {
	name string
	mode fs.FileMode
}

func (u *unpacker) entry(r io.Reader, h *tar.Header, first bool) error {
	name := strings.TrimSuffix(h.Name, "/")
	switch {
	case len(name) > maxName || !fs.ValidPath(name) || strings.Count(name,
		"/") > maxDepth || strings.ContainsRune(name, 0):
		return fmt.Errorf("%.100q is no name of a file", h.Name)
	case first != (name == "."):
		return fmt.Errorf("%.100q is not where it belongs", h.Name)
	case h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeReg:
		return fmt.Errorf("%.100q is neither a file nor a directory", h.Name)
	case sparse(h):
		return fmt.Errorf("%.100q is sparse, which nothing that Pack writes is", h.Name)
	}
	dir := h.Typeflag == tar.TypeDir
	if first {
		if err := u.settle(dir); err != nil {
			return err
		}
	}
	at := path.Join(u.base, name)
	mode := fs.FileMode(h.Mode).Perm() //nolint:gosec // its permissions
	if dir {
		return u.directory(at, mode)
	}
	return u.file(r, at, mode, h)
}

// sparse says whether a few bytes of a stream stand for any number of zeros.
func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// settle finds out where what is copied is to be put.
func (u *unpacker) settle(dir bool) error {
	u.base = path.Clean(u.Path)
	info, err := u.Root.Stat(u.base)
	switch {
	case errors.Is(err, fs.ErrNotExist) && u.Within:
		return fmt.Errorf("there is no directory %s", u.base)
	case errors.Is(err, fs.ErrNotExist):
		parent := path.Dir(u.base)
		if info, err := u.Root.Stat(parent); err != nil {
			return plain(parent, err)
		} else if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", parent)
		}
		return nil
	case err != nil:
		return plain(u.base, err)
	case info.IsDir() && (u.Name == "" && !dir):
		return fmt.Errorf("%s is a directory", u.base)
	case info.IsDir() && u.Name != "":
		if u.Name == "." || u.Name == ".." || strings.ContainsAny(u.Name, "/\x00") {
			return fmt.Errorf("%.100q is no name of a file", u.Name)
		}
		u.base = path.Join(u.base, u.Name)
	case !info.IsDir() && (dir || u.Within):
		return fmt.Errorf("%s is not a directory", u.base)
	}
	return nil
}

func (u *unpacker) directory(at string, mode fs.FileMode) error {
	const ours = 0o700 // until all is in it
	err := u.Root.Mkdir(at, ours)
	if errors.Is(err, fs.ErrExist) {
		info, err := u.Root.Stat(at)
		if err != nil {
			return plain(at, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is there and is not a directory", at)
		}
		u.Directories++
		return nil // with the mode that it has
	}
	if err != nil {
		return plain(at, err)
	}
	u.Directories++
	u.made = append(u.made, made{at, mode})
	return nil
}

func (u *unpacker) file(r io.Reader, at string, mode fs.FileMode, h *tar.Header) error {
	if h.Size < 0 || u.Bytes+h.Size > MaxBytes {
		return fmt.Errorf("there are more than %d bytes", int64(MaxBytes))
	}
	if info, err := u.Root.Lstat(at); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory", at)
	}
	temp := path.Join(path.Dir(at), temporary+rand.Text())
	f, err := u.Root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return plain(path.Dir(at), err)
	}
	if err = u.fits(f, h.Size); err == nil {
		_, err = io.CopyN(f, r, h.Size)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("what is copied broke off: %w", io.ErrUnexpectedEOF)
	}
	if err == nil && u.Owner != nil {
		err = f.Chown(u.Owner.UID, u.Owner.GID)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && u.keep(f) {
		f = nil
	}
	if cerr := closed(f); err == nil {
		err = cerr
	}
	if err == nil && !h.ModTime.IsZero() {
		err = u.Root.Chtimes(temp, time.Time{}, h.ModTime)
	}
	if err == nil {
		err = u.Root.Rename(temp, at)
	}
	if err != nil {
		return errors.Join(plain(at, err), u.remove(temp))
	}
	u.Files++
	u.Bytes += h.Size
	return nil
}

// fits says why there is no room for a file that is open, nil if there is.
func (u *unpacker) fits(f *os.File, size int64) error {
	if u.Room == nil {
		return nil
	}
	room, err := u.Room(f)
	if err != nil {
		return fmt.Errorf("find out how much room there is: %w", err)
	}
	if size > room {
		return fmt.Errorf("it has %d bytes, and there is room for %d", size, max(room, 0))
	}
	return nil
}

// keep keeps the first file of each file system open, by which it is synced in the end.
func (u *unpacker) keep(f *os.File) bool {
	if u.Sync == nil {
		return false
	}
	on, err := deviceOf(f)
	if err != nil || u.systems[on] != nil {
		return false
	}
	u.systems[on] = f
	return true
}

// deviceOf names the file system that a file is in.
func deviceOf(f *os.File) (uint64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return uint64(st.Dev), nil //nolint:gosec,unconvert // a name; another size on other systems
}

func (u *unpacker) close() {
	for _, f := range u.systems {
		_ = f.Close() // it was synced, or something else went wrong
	}
}

func closed(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// remove removes what is not complete.
func (u *unpacker) remove(temp string) error {
	if err := u.Root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is not complete: %w", plain(temp, err))
	}
	return nil
}

// finish gives the directories that were made the modes that they are to have, and lets
// all reach the disk.
func (u *unpacker) finish() error {
	for i := len(u.made) - 1; i >= 0; i-- {
		if u.Owner != nil {
			if err := u.Root.Lchown(u.made[i].name, u.Owner.UID, u.Owner.GID); err != nil {
				return plain(u.made[i].name, err)
			}
		}
		if err := u.Root.Chmod(u.made[i].name, u.made[i].mode); err != nil {
			return plain(u.made[i].name, err)
		}
	}
	for _, f := range u.systems {
		if err := u.Sync(f); err != nil {
			return fmt.Errorf("let what was copied reach the disk: %w", err)
		}
	}
	return nil
}
