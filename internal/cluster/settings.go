package cluster

import (
	"time"

	"github.com/verge-edge/verge/internal/loop"
)

// Settings are what can be changed while a cluster runs; see Options.
type Settings struct {
	Areas   []string
	Details bool
	Lambda  time.Duration
}

// Set brings other settings into force; the root hears of them at once.
func (c *Cluster) Set(s Settings) {
	c.mu.Lock()
	c.areas, c.m.details, c.lambda = s.Areas, s.Details, s.Lambda
	c.mu.Unlock()
	loop.Poke(c.upChanged)
	loop.Poke(c.wake)
}
