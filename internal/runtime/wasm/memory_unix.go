//go:build unix

package wasm

import "golang.org/x/sys/unix"

// reserve gives addresses for size bytes, which are zero. Not from the heap: what
// ends gives its memory back to the machine at once, and growing copies nothing.
func reserve(size uint64) []byte {
	if size == 0 {
		return []byte{}
	}
	pages, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE) //nolint:gosec // at most 4 GiB
	if err != nil {
		return nil // any size is too much then
	}
	return pages
}

func release(pages []byte) {
	if len(pages) > 0 {
		_ = unix.Munmap(pages) // it is ours
	}
}
