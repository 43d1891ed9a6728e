package busconn

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A worker's connection to its cluster is marked, in both families.
func TestControlGoesFirst(t *testing.T) {
	for network, at := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"} {
		ln, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		c, err := (&net.Dialer{Control: urgent}).DialContext(t.Context(), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		mark := [2]int{unix.IPPROTO_IP, unix.IP_TOS}
		if network == "tcp6" {
			mark = [2]int{unix.IPPROTO_IPV6, unix.IPV6_TCLASS}
		}
		var priority, class int
		var err1, err2 error
		err = raw.Control(func(fd uintptr) {
			priority, err1 = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY)
			class, err2 = unix.GetsockoptInt(int(fd), mark[0], mark[1])
		})
		if err != nil || err1 != nil || err2 != nil || priority != interactive || class != signalling {
			t.Errorf("%s: priority %d, class %#x: %v, %v, %v", network, priority, class, err, err1, err2)
		}
	}
}
