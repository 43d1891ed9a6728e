//go:build !linux

package busconn

import "syscall"

// urgent marks nothing here.
func urgent(string, string, syscall.RawConn) error { return nil }
