package index

import (
	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// Scarce is how many rows lack a resource, and the row that comes closest: the example
// of its filter, by the rules of place.filterLog.
type Scarce struct {
	N    int
	ID   string
	Free int64
}

func (c *Scarce) closest(id string, free int64) {
	if c.ID == "" || free > c.Free || free == c.Free && id < c.ID {
		c.ID, c.Free = id, free
	}
}

// Lacking counts the rows that lack what is demanded, each for the first resource
// that is short.
func (n *Node) Lacking(demand *amount.Vec, out *[amount.Kinds]Scarce) {
	for j := range amount.Kinds {
		if demand[j] <= n.MinFree[j] {
			continue // enough in all of them
		}
		if demand[j] > n.MaxFree[j] {
			out[j].N += n.N
			n.nearest(j, &out[j])
			return
		}
		for _, k := range n.Kids {
			k.Lacking(demand, out)
		}
		for i := range n.Rows {
			if f := amount.FirstShort(demand, &n.Rows[i].Free); f >= 0 {
				out[f].N++
				out[f].closest(n.Rows[i].ID, n.Rows[i].Free[f])
			}
		}
		return
	}
}

// nearest updates c with the closest of the rows, which all lack resource j.
func (n *Node) nearest(j int, c *Scarce) {
	if c.ID != "" && (n.MaxFree[j] < c.Free || n.MaxFree[j] == c.Free && n.First >= c.ID) {
		return
	}
	for _, k := range n.Kids {
		k.nearest(j, c)
	}
	for i := range n.Rows {
		c.closest(n.Rows[i].ID, n.Rows[i].Free[j])
	}
}
