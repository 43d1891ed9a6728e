package cluster

import (
	"encoding/json"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/wire"
)

// holdingsBytes bounds the shares in one answer, so that a large one still fits.
const holdingsBytes = 384 << 10

// holdings are the shares that the root, or the one that it is a copy of, has
// delegated, from the one after a key on. They are the root's own words, so that
// it may have them whatever the operator keeps to himself; what was changed here
// is not among them.
func (c *core) holdings(after string) (wire.Holdings, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := wire.Holdings{V: wire.Version, Have: c.m.Have().Rev}
	if after == "" {
		h.Lease = netlease.Blocks(c.m.Model)
	}
	size := 0
	for _, key := range records.SortedKeys(c.m.Given) {
		if key <= after {
			continue
		}
		b, err := json.Marshal(c.m.Given[key])
		if err != nil {
			return h, err
		}
		if size += len(b); len(h.Shares) > 0 && size > holdingsBytes {
			h.More = true
			break
		}
		h.Shares = append(h.Shares, *c.m.Given[key])
	}
	return h, nil
}
