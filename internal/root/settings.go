package root

import (
	"time"

	"github.com/verge-edge/verge/internal/loop"
)

// SetDeadAfter changes how long a cluster may be away before what it runs is
// placed elsewhere; more than 0.
func (r *Root) SetDeadAfter(d time.Duration) {
	r.mu.Lock()
	r.m.deadAfter = d
	r.mu.Unlock()
	loop.Poke(r.wake)
}
