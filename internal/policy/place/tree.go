package place

import (
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/index"
)

func newRow(w *WorkerView, same int) index.Row {
	r := index.Row{ID: w.ID, Hash: index.RingOf(w.ID), Same: same, Free: freeOf(w), Capacity: amount.ToVec(w.Capacity)}
	for j := range amount.Disk + 1 { // those that count for every request
		if r.Capacity[j] > 0 {
			r.Fullest = max(r.Fullest, float64(r.Free[j])/float64(r.Capacity[j]))
		}
	}
	return r
}
