//go:build linux && !race

package http1

import (
	"syscall"
	"unsafe"
)

// System calls on sockets that never block. The runtime is not told of them, as it is
// of others: the scheduler would look at each of them whether it lasts, every 20 µs,
// which is a tenth of the processor time of a busy relay.

func sysRead(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), e
}

func sysWrite(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), e
}

// sysWriteMore is sysWrite before another one that follows at once: a segment that is not full
// may wait for that.
func sysWriteMore(fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		syscall.MSG_MORE|syscall.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

// sysPeek looks at the first byte without taking it.
func sysPeek(fd uintptr, p *[1]byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(p)), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return int(n), e
}
