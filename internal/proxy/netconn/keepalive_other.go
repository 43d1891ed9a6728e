//go:build !linux

package netconn

import (
	"net"
	"time"
)

// boundUnacknowledged does nothing: the system has no such bound.
func boundUnacknowledged(*net.TCPConn, time.Duration) error { return nil }
