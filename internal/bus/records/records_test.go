package records

import (
	"context"
	"fmt"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
)

// counting is a store that notes how it was written to.
type counting struct {
	*bustest.MemStore
	commits [][]bus.Op
}

func (c *counting) Commit(ctx context.Context, ops ...bus.Op) (uint64, error) {
	c.commits = append(c.commits, ops)
	return c.MemStore.Commit(ctx, ops...)
}

func TestCommitKeepsGroupsWholeAndLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		groups, each, size int
		want               int // commits
	}{
		"nothing":     {0, 0, 0, 0},
		"small":       {10, 3, 10, 1},
		"many":        {700, 3, 10, 3}, // 333 groups of 3 fit into 1000
		"large":       {8, 1, 3 << 20, 2},
		"two, larger": {3, 2, 3 << 20, 2},
	} {
		var groups [][]bus.Op
		for g := range tc.groups {
			var ops []bus.Op
			for i := range tc.each {
				ops = append(ops, bus.Put(fmt.Sprintf("k%d.%d", g, i), make([]byte, tc.size)))
			}
			groups = append(groups, ops)
		}
		store := &counting{MemStore: bustest.NewMemStore()}
		if err := Commit(context.Background(), store, groups); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		total := 0
		for _, c := range store.commits {
			if tc.each > 0 && len(c)%tc.each != 0 {
				t.Errorf("%s: a group was split, a commit has %d ops", name, len(c))
			}
			total += len(c)
		}
		if len(store.commits) != tc.want || total != tc.groups*tc.each {
			t.Errorf("%s: %d ops in %d commits, want %d in %d", name, total, len(store.commits), tc.groups*tc.each, tc.want)
		}
	}
}
