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
	// Room says how much may still be written; nil: as much as there is.
	Room func() (int64, error)
}

// Unpack puts what Pack wrote to r into its place.
func Unpack(ctx context.Context, r io.Reader, t Target) (Summary, error) {
	u := unpacker{ctx: ctx, Target: t}
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
}

// made is a directory that was made, and what it is to be like in the end.
type made struct {
	name string
	mode fs.FileMode
}

func (u *unpacker) entry(r io.Reader, h *tar.Header, first bool) error {
	name := strings.TrimSuffix(h.Name, "/")
	switch {
	case len(name) > maxName || !fs.ValidPath(name) || strings.Count(name, "/") > maxDepth || strings.ContainsRune(name, 0):
		return fmt.Errorf("%.100q is no name of a file", h.Name)
	case first != (name == "."):
		return fmt.Errorf("%.100q is not where it belongs", h.Name)
	case h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeReg:
		return fmt.Errorf("%.100q is neither a file nor a directory", h.Name)
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
	if u.Room != nil {
		room, err := u.Room()
		if err != nil {
			return fmt.Errorf("find out how much room there is: %w", err)
		}
		if h.Size > room {
			return fmt.Errorf("%s has %d bytes, and there is room for %d", at, h.Size, max(room, 0))
		}
	}
	if info, err := u.Root.Lstat(at); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory", at)
	}
	temp := path.Join(path.Dir(at), temporary+rand.Text())
	f, err := u.Root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return plain(path.Dir(at), err)
	}
	_, err = io.CopyN(f, r, h.Size)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("what is copied broke off: %w", io.ErrUnexpectedEOF)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
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

// remove removes what is not complete.
func (u *unpacker) remove(temp string) error {
	if err := u.Root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove what is not complete: %w", plain(temp, err))
	}
	return nil
}

// finish gives the directories that were made the modes that they are to have.
func (u *unpacker) finish() error {
	for i := len(u.made) - 1; i >= 0; i-- {
		if err := u.Root.Chmod(u.made[i].name, u.made[i].mode); err != nil {
			return plain(u.made[i].name, err)
		}
	}
	return nil
}
