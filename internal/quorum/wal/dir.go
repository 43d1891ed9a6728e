package wal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// Dir is a Disk: a directory of the file system, which one process uses.
type Dir struct{ path string }

// OpenDir makes the directory if it is missing.
func OpenDir(path string) (*Dir, error) {
	if err := atomicfile.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("open the directory of the log: %w", err)
	}
	return &Dir{path}, nil
}

func (d *Dir) at(name string) string { return filepath.Join(d.path, name) }

// List implements Disk.
func (d *Dir) List() ([]string, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Open implements Disk.
func (d *Dir) Open(name string) (File, error) {
	f, err := os.OpenFile(d.at(name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return dirFile{f}, nil
}

// Create implements Disk.
func (d *Dir) Create(name string, size int64) (File, error) {
	f, err := os.OpenFile(d.at(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, noSpace(err)
	}
	if size == 0 {
		return dirFile{f}, nil
	}
	err = allocate(f, size)
	if err == nil {
		// The size is of what a sync of data alone leaves out.
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(noSpace(err), f.Close(), os.Remove(f.Name()))
	}
	return dirFile{f}, nil
}

func noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

// Rename implements Disk.
func (d *Dir) Rename(from, to string) error { return os.Rename(d.at(from), d.at(to)) }

// Remove implements Disk.
func (d *Dir) Remove(name string) error { return os.Remove(d.at(name)) }

// SyncDir implements Disk.
func (d *Dir) SyncDir() error { return atomicfile.SyncDir(d.path) }

type dirFile struct{ *os.File }

// Size implements File.
func (f dirFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Sync implements File.
func (f dirFile) Sync() error { return syncData(f.File) }

var _ Disk = (*Dir)(nil)

// writeZeros is for file systems that cannot reserve blocks.
func writeZeros(f *os.File, size int64) error {
	zeros := make([]byte, 256<<10)
	for at := int64(0); at < size; at += int64(len(zeros)) {
		if _, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return fmt.Errorf("write zeros: %w", err)
		}
	}
	return nil
}
