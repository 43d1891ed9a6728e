package cluster

import (
	"time"

	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/state"
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
	if err := consult.SetPlugins(c.Core, s.Plugins); err != nil {
		c.Logger.Error("the plugins stay as they were", "error", err)
	}
	core.Do(c.Core, func(m *state.Model) {
		c.Areas, m.Details, c.Heartbeat = s.Areas, s.Details, s.HeartbeatInterval
		netlease.NetworkOf(m).RelayOnly, m.Scheduler = s.RelayOnly, s.Scheduler
		c.SiteInfo, m.Site = s.Site, s.Site
		for _, w := range m.Workers {
			w.Learn(w.WorkerRecord, s.Site.Labels)
		}
	})
	loop.Poke(c.UpChanged)
	loop.Poke(c.Wake)
}
