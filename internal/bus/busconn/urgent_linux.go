package busconn

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// interactive is the priority that the kernel's usual queues send first; more needs
	// rights.
	interactive = 6
	// signalling (CS5) is for queues beyond the machine that heed such marks: WLAN,
	// routers with queues of their own. Others ignore it.
	signalling = 40 << 2
)

// urgent marks a socket of control, before it connects: where data of this machine
// waits for the same line in a queue that knows priorities, control need not. What
// cannot be marked works all the same.
func urgent(network, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		if strings.HasSuffix(network, "6") {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, signalling)
		} else {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, signalling)
		}
		// Last: in IPv4 the mark sets a priority too, and another one.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, interactive)
		endsDead(fd)
	})
}
