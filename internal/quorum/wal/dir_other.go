//go:build !linux

package wal

import "os"

func allocate(f *os.File, size int64) error { return writeZeros(f, size) }

func syncData(f *os.File) error { return f.Sync() }
