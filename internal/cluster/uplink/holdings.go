package uplink

import (
	"encoding/json"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// holdingsBytes bounds the shares in one answer, so that a large one still fits.
const holdingsBytes = 384 << 10

// Holdings are the shares that the root, or the one that it is a copy of, has
// delegated, from the one after a key on. They are the root's own words, so that
// it may have them whatever the operator keeps to himself; what was changed here
// is not among them.
func Holdings(c *core.Core, after string) (rpc.Holdings, error) {
	return core.View2(c, func(m *state.Model) (rpc.Holdings, error) {
		h := rpc.Holdings{V: wire.Version, Have: m.Have().Rev}
		if after == "" {
			h.Lease = netlease.Blocks(m)
		}
		size := 0
		for _, key := range records.SortedKeys(m.FromRoot) {
			if key <= after {
				continue
			}
			b, err := json.Marshal(m.FromRoot[key])
			if err != nil {
				return h, err
			}
			if size += len(b); len(h.Shares) > 0 && size > holdingsBytes {
				h.More = true
				break
			}
			h.Shares = append(h.Shares, *m.FromRoot[key])
		}
		return h, nil
	})
}
