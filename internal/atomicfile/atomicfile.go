// Package atomicfile replaces a file as one step and reads files with a size
// limit. It is what every part of Verge uses for state that must survive a
// crash or a power cut: after one, a file holds either its old content or its
// new content, never a mixture or a part.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// ErrTooLarge is wrapped by the error that ReadBounded returns for a file
// larger than the caller allows.
var ErrTooLarge = errors.New("file is too large")

// Write replaces the file at path by data with the permissions perm (the
// umask does not apply). It writes a temporary file in the same folder, syncs
// it, renames it over path and syncs the folder. The folder must exist. When
// it returns an error from any step before the rename, the old file is intact
// and the temporary file is removed. A symbolic link at path is replaced, not
// followed.
func Write(path string, data []byte, perm os.FileMode) error {
	if err := replace(path, data, perm, (*os.File).Sync); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// Replace is Write for what counts only until the machine stops: it waits for no
// disk. A reader sees the old content or the new, whoever is killed meanwhile; but
// after a power cut the file may be as it was at any earlier time, missing, or
// empty.
func Replace(path string, data []byte, perm os.FileMode) error {
	return replace(path, data, perm, func(*os.File) error { return nil })
}

func replace(path string, data []byte, perm os.FileMode, sync func(*os.File) error) error {
	dir := filepath.Dir(path)
	// The leading dot and the suffix keep a leftover of a power cut apart
	// from real files, for a reader that lists the folder.
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return failed(path, "create temporary file", err)
	}
	tmp := f.Name()
	if err := fill(f, data, perm, sync); err != nil {
		return errors.Join(failed(path, "fill temporary file", err), os.Remove(tmp))
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(failed(path, "put in place", err), os.Remove(tmp))
	}
	return nil
}

// failed is the error of a step of writing the file at path. It leaves out the name of the
// temporary file, which is another one each time: a failure that lasts reads the same each
// time, so whoever reports it can tell that it is not news.
func failed(path, step string, err error) error {
	var of *os.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &of):
		err = of.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fmt.Errorf("write %s: %s: %w", path, step, withoutInodes(filepath.Dir(path), err))
}

// withoutInodes says of an error in dir that it comes from a lack of inodes where it does:
// the system's words for it, and df, speak of space. A file system that does not count
// inodes says that it has 0 of 0.
func withoutInodes(dir string, err error) error {
	var st syscall.Statfs_t
	if !errors.Is(err, syscall.ENOSPC) || syscall.Statfs(dir, &st) != nil || st.Files == 0 || st.Ffree > 0 {
		return err
	}
	return fmt.Errorf("%w: no inode is free under %s: remove files", err, dir)
}

// fill writes data to f, makes it durable by sync and closes f in every case.
func fill(f *os.File, data []byte, perm os.FileMode, sync func(*os.File) error) error {
	err := f.Chmod(perm)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = sync(f)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// SyncDir makes the names in a folder durable: files that were created in it,
// renamed into it or removed from it.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// ReadBounded reads the whole file at path, at most max bytes. A larger file
// is an error that wraps ErrTooLarge; a missing one wraps os.ErrNotExist.
func ReadBounded(path string, max int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	data, err := ReadAllBounded(f, max)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// ReadAllBounded reads r to its end, at most max bytes; more is an error that
// wraps ErrTooLarge.
func ReadAllBounded(r io.Reader, max int64) ([]byte, error) {
	// One byte more than allowed tells "exactly max" from "larger".
	data, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > max {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, max)
	}
	return data, nil
}
