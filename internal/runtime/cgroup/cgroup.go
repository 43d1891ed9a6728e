package cgroup

import (
	"errors"
	"time"
)

// ErrUnavailable: there is no control group to be had (see Manager.Missing).
var ErrUnavailable = errors.New("no control groups")

// Limits of a group.
type Limits struct {
	// CPUWeight in millicores: the share under contention. 0 means the least.
	CPUWeight int64
	// CPULimit in millicores, 0 means none.
	CPULimit int64
	// Memory in bytes, swap included where that is accounted; 0 means none.
	Memory int64
	// PIDs is the number of processes and threads, 0 means none.
	PIDs int64
}

// Usage of a group. A field whose controller is missing is -1.
type Usage struct {
	CPU    time.Duration // since the group was made
	Memory int64         // bytes, without page cache that can be dropped
	PIDs   int           // processes and threads
}
