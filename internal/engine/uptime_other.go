//go:build !linux

package engine

import "time"

// uptime is not known here.
func uptime() time.Duration { return 0 }
