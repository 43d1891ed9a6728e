package proxy

import "time"

// demand counts what clients on this worker want of a service.
type demand struct {
	arrived uint64
	last    time.Time
}
