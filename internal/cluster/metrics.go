package cluster

import (
	"github.com/verge-edge/verge/internal/cluster/metrics"
	"github.com/verge-edge/verge/internal/obs"
)

// allSamples are samples, and those of what the process itself is known by.
func (c *Cluster) allSamples() []obs.Sample {
	return append(append(append(metrics.Samples(c.Core), c.shelf.Samples()...), c.HookKeeper.Samples()...),
		obs.Expires("cluster", c.id.Leaf().NotAfter), obs.Expires("authority", c.ca.Cert().NotAfter))
}
