package core

import (
	"slices"

	"github.com/verge-edge/verge/internal/wire"
)

// MaxDeparted are the instances of which places are remembered after they have left.
const MaxDeparted = 4096

// departed remembers where the logs of instances are that have left the cluster: the root
// has given them to another, or they are no more. It is a help for people and not stored.
type departed struct {
	Places map[wire.InstanceID][]wire.Placement
	Order  []wire.InstanceID // oldest first
}

func (d *departed) Add(id wire.InstanceID, places []wire.Placement) {
	if len(places) == 0 {
		return
	}
	if d.Places == nil {
		d.Places = map[wire.InstanceID][]wire.Placement{}
	}
	if _, again := d.Places[id]; again {
		d.Order = slices.DeleteFunc(d.Order, func(other wire.InstanceID) bool { return other == id })
	} else if len(d.Order) == MaxDeparted {
		delete(d.Places, d.Order[0])
		d.Order = d.Order[1:]
	}
	d.Places[id], d.Order = places, append(d.Order, id)
}
