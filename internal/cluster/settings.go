package cluster

import (
	"time"

	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/wire"
)

// Settings are what can be changed while a cluster runs; see Options.
type Settings struct {
	Areas             []string
	Site              wire.Site
	Details           bool
	HeartbeatInterval time.Duration
	// RelayOnly is as in Options.
	RelayOnly bool
	// Plugins are as in Options.
	Plugins []plugin.Config
	// Scheduler is as in Options. What is placed already stays where it is.
	Scheduler string
}

// Set brings other settings into force; the root hears of them at once. Where
// a plugin cannot be used, which is logged, all of them stay as they were.
func (c *Cluster) Set(s Settings) {
	if err := c.setPlugins(s.Plugins); err != nil {
		c.log.Error("the plugins stay as they were", "error", err)
	}
	c.mu.Lock()
	c.areas, c.m.Details, c.lambda = s.Areas, s.Details, s.HeartbeatInterval
	c.m.net.RelayOnly, c.m.byDefault = s.RelayOnly, s.Scheduler
	c.site, c.m.Site = s.Site, s.Site
	for _, w := range c.m.Workers {
		w.Learn(w.WorkerRecord, s.Site.Labels)
	}
	c.mu.Unlock()
	loop.Poke(c.upChanged)
	loop.Poke(c.wake)
}
