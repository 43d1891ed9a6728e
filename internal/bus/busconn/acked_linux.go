package busconn

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialedPing is how often a dialed connection is pinged. Its owner's heartbeats are sent
// all the time, and the kernel ends a connection on which nothing is acknowledged for
// deadAfter: a ping beside that would be one message in twelve at an idle cluster.
const dialedPing = 24 * time.Hour

// deadAfter is when a connection that acknowledges nothing is given up and made anew,
// as pings every two minutes would.
const deadAfter = 2 * PingInterval

// unacked is how many bytes of those written to a socket the other end's machine has not
// acknowledged. ok is false where the system cannot say, or the socket is closed.
func unacked(c syscall.Conn) (bytes int, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var said error
	err = raw.Control(func(fd uintptr) { bytes, said = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return bytes, err == nil && said == nil
}

// acked is how many bytes the other end's machine has acknowledged since the connection was
// made. ok is false where the system cannot say.
func acked(c syscall.Conn) (bytes uint64, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var info *unix.TCPInfo
	var said error
	err = raw.Control(func(fd uintptr) { info, said = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err != nil || said != nil {
		return 0, false
	}
	return info.Bytes_acked, true
}

// endsDead has the kernel end a connection after deadAfter.
func endsDead(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter/time.Millisecond))
}
