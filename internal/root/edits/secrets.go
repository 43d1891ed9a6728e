package edits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/seal"
)

// Close puts the values into what a step has decided to give. A value that cannot
// be sealed is left out, and tried again with the next pass. It is called within core.Do.
func Close(ctx context.Context, c *core.Core, t *state.Tx) {
	for _, key := range records.SortedKeys(secrets.SealedTable.Changes(t.Rows)) {
		s := secrets.SealedTable.Changes(t.Rows)[key]
		if s == nil {
			continue
		}
		cluster, id, _ := strings.Cut(key, ".")
		value, err := open(ctx, c, id, s.Version)
		if err == nil {
			s.Sealed, err = seal.Seal(c.M.Clusters[cluster].Aggregate.SealKey, s.Purpose(), value)
		}
		if err != nil {
			delete(secrets.SealedTable.Changes(t.Rows), key)
			c.Logger.Error("a secret cannot be sealed", "secret", id, "cluster", cluster, "error", err)
		}
	}
}

// open returns the value of a secret.
func open(ctx context.Context, c *core.Core, id, version string) ([]byte, error) {
	e, err := c.RecordStore.Get(ctx, secrets.Key+id)
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	var rec record.Secret
	if err := json.Unmarshal(e.Value, &rec); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	if rec.Version != version {
		return nil, errors.New("it was changed meanwhile")
	}
	return c.Key.Open(rec.Purpose(), rec.Sealed)
}
