package device

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/phrase"
	"github.com/verge-edge/verge/internal/wire"
)

// Device of a worker, and how much of it is taken.
type Device struct {
	wire.Device
	Used api.Units `json:"used,omitempty"` // thousandths
}

// Whole is one whole device, in thousandths.
const Whole = 1000

// Need is what a request asks of one type of device.
type Need struct {
	Of    *api.DeviceNeed // its type, and the models that will do
	Units int64           // thousandths: whole devices, or part of one
}

// Needs iterates over the needs of a demand and a list of devices, type by type.
func Needs(demand amount.Vec, list []api.DeviceNeed) iter.Seq[Need] {
	return func(yield func(Need) bool) {
		for _, c := range [...]struct {
			typ string
			j   int
		}{{api.DeviceGPU, amount.GPU}, {api.DeviceTPU, amount.TPU}} {
			if demand[c.j] <= 0 {
				continue
			}
			of := &api.DeviceNeed{Type: c.typ}
			if i := slices.IndexFunc(list, func(d api.DeviceNeed) bool { return d.Type == c.typ }); i >= 0 {
				of = &list[i]
			}
			if !yield(Need{of, demand[c.j]}) {
				return
			}
		}
		for i := range list {
			d := &list[i]
			if d.Type != api.DeviceGPU && d.Type != api.DeviceTPU && d.Count > 0 && !yield(Need{d, int64(d.Count) * Whole}) {
				return
			}
		}
	}
}

// Needed is a quick check whether Needs has any.
func Needed(demand amount.Vec, list []api.DeviceNeed) bool {
	return demand[amount.GPU] > 0 || demand[amount.TPU] > 0 || len(list) > 0
}

// NeededBy says whether an instance of a service needs any device.
func NeededBy(s *api.Service) bool { return Needed(amount.ToVec(s.Resources), s.Devices) }

// Give selects the devices of a worker for an instance with these reservations. A share
// comes from the device with the least room that has enough, so that others stay whole;
// whole devices are the first free ones. If anything is not available, it selects none
// and returns in words what is lacking.
func Give(devices []Device, demand api.Resources, list []api.DeviceNeed) (held []wire.Held, lacking string) {
	for n := range Needs(amount.ToVec(amount.Clean(demand)), list) {
		part, free := n.Take(devices)
		if part == nil {
			return nil, n.Short(free)
		}
		held = append(held, part...)
	}
	return held, ""
}

// Take picks devices for a need; nil if there are too few. free is for Short: the largest
// free share for a part of a device, else the free whole devices, in thousandths.
func (n Need) Take(devices []Device) (held []wire.Held, free int64) {
	best := -1
	var room int64
	for i := range devices {
		d := &devices[i]
		if d.Type != n.Of.Type || !n.Of.Does(d.Model) {
			continue
		}
		left := amount.SubInt(Whole, int64(d.Used))
		switch {
		case n.Units < Whole:
			if free = max(free, left); left >= n.Units && (best < 0 || left < room) {
				best, room = i, left
			}
		case left == Whole:
			if free += Whole; int64(len(held))*Whole < n.Units {
				held = append(held, wire.Held{ID: d.ID, Share: Whole})
			}
		}
	}
	switch {
	case best >= 0:
		return []wire.Held{{ID: devices[best].ID, Share: api.Units(n.Units)}}, free
	case n.Units < Whole || n.Units%Whole != 0 || int64(len(held))*Whole < n.Units:
		return nil, free
	}
	return held, free
}

// what formats the need: "0.5 of a gpu", "2 gpus of model a10".
func (n Need) what() string {
	text := "a " + n.Of.Type
	switch {
	case n.Units < Whole:
		text = api.Units(n.Units).String() + " of a " + n.Of.Type
	case n.Units > Whole:
		text = api.Units(n.Units).String() + " " + n.Of.Type + "s"
	}
	if len(n.Of.Model) > 0 {
		text += " of model " + phrase.OneOf(n.Of.Model)
	}
	return text
}

// Short says in words that too little of what is needed is free.
func (n Need) Short(free int64) string {
	if n.Units < Whole {
		return fmt.Sprintf("needs %s, at most %s of one free", n.what(), api.Units(free))
	}
	return fmt.Sprintf("needs %s, %s free", n.what(), api.Units(free))
}

// Lacks says in words which requested device a worker does not have, taken or not; "" if
// it has all.
func Lacks(devices []Device, demand amount.Vec, list []api.DeviceNeed) string {
	for n := range Needs(demand, list) {
		var have int64
		for i := range devices {
			if devices[i].Type == n.Of.Type && n.Of.Does(devices[i].Model) {
				have += Whole
			}
		}
		if have < n.Units {
			return "has not " + n.what() + had(devices, n.Of.Type)
		}
	}
	return ""
}

// had lists the models of a type in parentheses.
func had(devices []Device, typ string) string {
	var models []string
	for i := range devices {
		if d := &devices[i]; d.Type == typ {
			models = append(models, d.Model)
		}
	}
	return inventory(models)
}

func inventory(models []string) string {
	for i, m := range models {
		if m == "" {
			models[i] = "one of unknown model"
		}
	}
	slices.Sort(models)
	if models = slices.Compact(models); len(models) == 0 {
		return ""
	}
	return " (has " + strings.Join(phrase.Shorten(models), ", ") + ")"
}

// ClusterLacks is Lacks for an aggregate.
func ClusterLacks(a *wire.Aggregate, demand amount.Vec, list []api.DeviceNeed) string {
	for n := range Needs(demand, list) {
		var have int64
		var models []string
		for key, count := range a.Devices {
			typ, model, _ := strings.Cut(key, "/")
			if typ != n.Of.Type || count <= 0 {
				continue
			}
			models = append(models, model)
			if n.Of.Does(model) {
				have += int64(count)
			}
		}
		if have*Whole < n.Units && !a.MoreDevices {
			return "has not " + n.what() + inventory(models)
		}
	}
	return ""
}

// Admit says why an instance cannot have the devices it was given, "" if it can: they
// exist, are free, and are what it needs. The worker uses it to check the result of Give.
func Admit(devices []Device, held []wire.Held, demand api.Resources, list []api.DeviceNeed) string {
	given := make([]Device, 0, len(held))
	for _, h := range held {
		i := slices.IndexFunc(devices, func(d Device) bool { return d.ID == h.ID })
		switch {
		case i < 0:
			return fmt.Sprintf("was given device %s, which is not on this worker", h.ID)
		case h.Share <= 0 || h.Share > Whole || slices.ContainsFunc(given, func(d Device) bool { return d.ID == h.ID }):
			return fmt.Sprintf("was given %s of device %s, which cannot be", h.Share, h.ID)
		case int64(h.Share) > amount.SubInt(Whole, int64(devices[i].Used)):
			return fmt.Sprintf("needs %s of device %s, %s free", h.Share,
				h.ID, api.Units(amount.SubInt(Whole, int64(devices[i].Used))))
		}
		d := devices[i]
		d.Used = Whole - h.Share
		given = append(given, d)
	}
	if _, lacking := Give(given, demand, list); lacking != "" {
		return "was not given the devices that it needs: " + lacking
	}
	return ""
}
