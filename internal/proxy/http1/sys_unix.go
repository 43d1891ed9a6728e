//go:build unix && (!linux || race)

package http1

import "syscall"

// As sys_linux.go has them, but so that the race detector sees what one end of a
// connection knows from the other.

func sysRead(fd uintptr, p []byte) (int, syscall.Errno) { return result(syscall.Read(int(fd), p)) }

func sysWrite(fd uintptr, p []byte) (int, syscall.Errno) { return result(syscall.Write(int(fd), p)) }

func sysWriteMore(fd uintptr, p []byte) (int, syscall.Errno) { return sysWrite(fd, p) }

// sysPeek looks at the first byte without taking it.
func sysPeek(fd uintptr, p *[1]byte) (int, syscall.Errno) {
	n, _, err := syscall.Recvfrom(int(fd), p[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return result(n, err)
}

func result(n int, err error) (int, syscall.Errno) {
	if err == nil {
		return n, 0
	}
	if e, ok := err.(syscall.Errno); ok { //nolint:errorlint // the system's own
		return n, e
	}
	return n, syscall.EIO
}
