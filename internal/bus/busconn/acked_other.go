//go:build !linux

package busconn

import "syscall"

// dialedPing is how often a dialed connection is pinged.
const dialedPing = PingInterval

// unacked cannot be said here.
func unacked(syscall.Conn) (bytes int, ok bool) { return 0, false }

// acked cannot be asked for here.
func acked(syscall.Conn) (bytes uint64, ok bool) { return 0, false }
