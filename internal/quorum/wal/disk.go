package wal

import (
	"errors"
	"io"
)

// Disk is a directory on a disk.
type Disk interface {
	// List has the names of all files.
	List() ([]string, error)
	// Open opens a file that is there, to read and to write.
	Open(name string) (File, error)
	// Create makes a file of size zeros that can all be written without more room, or an empty
	// one of size 0, which grows. A file of this name is replaced. A lack of room wraps ErrNoSpace.
	Create(name string, size int64) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes names durable: what was created, renamed and removed.
	SyncDir() error
}

// File of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size in bytes.
	Size() (int64, error)
	// Sync makes what was written durable.
	Sync() error
}

// ErrNoSpace says that a disk is full. Nothing was changed.
var ErrNoSpace = errors.New("no space is left on the disk")

// ErrNone says that a disk has no log.
var ErrNone = errors.New("there is no log")

// ErrDamaged says that a disk has not what was written to it.
var ErrDamaged = errors.New("the log is damaged")
