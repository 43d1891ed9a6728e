package place

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
)

// whole is all of one device.
const whole = 1000

// need is what a request asks of one type of device.
type need struct {
	of    *api.DeviceNeed // its type, and the models that will do
	units int64           // whole devices, or less than one
}

// needs are what a demand and a list of devices come to, type by type.
func needs(demand amount.Vec, list []api.DeviceNeed) iter.Seq[need] {
	return func(yield func(need) bool) {
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
			if !yield(need{of, demand[c.j]}) {
				return
			}
		}
		for i := range list {
			d := &list[i]
			if d.Type != api.DeviceGPU && d.Type != api.DeviceTPU && d.Count > 0 && !yield(need{d, int64(d.Count) * whole}) {
				return
			}
		}
	}
}

// asksDevices says quickly whether needs has any.
func asksDevices(demand amount.Vec, list []api.DeviceNeed) bool {
	return demand[amount.GPU] > 0 || demand[amount.TPU] > 0 || len(list) > 0
}

// AsksDevices says whether an instance of a service needs any device.
func AsksDevices(s *api.Service) bool { return asksDevices(amount.ToVec(s.Resources), s.Devices) }

// Give says which of a worker's devices an instance with these reservations gets. A
// share comes from the device with the least room that has enough, so that others
// stay whole; whole devices are the first free ones. Where something is not to be had
// it gives nothing and says what is lacking, in words.
func Give(devices []Device, demand api.Resources, list []api.DeviceNeed) (held []wire.Held, lacking string) {
	for n := range needs(amount.ToVec(amount.Clean(demand)), list) {
		part, free := n.take(devices)
		if part == nil {
			return nil, n.short(free)
		}
		held = append(held, part...)
	}
	return held, ""
}

// take picks devices for a need; nil and what is free, in the unit that short writes,
// if there are too few.
func (n need) take(devices []Device) (held []wire.Held, free int64) {
	best := -1
	var room int64
	for i := range devices {
		d := &devices[i]
		if d.Type != n.of.Type || !n.of.Does(d.Model) {
			continue
		}
		left := amount.SubInt(whole, int64(d.Used))
		switch {
		case n.units < whole:
			if free = max(free, left); left >= n.units && (best < 0 || left < room) {
				best, room = i, left
			}
		case left == whole:
			if free += whole; int64(len(held))*whole < n.units {
				held = append(held, wire.Held{ID: d.ID, Share: whole})
			}
		}
	}
	switch {
	case best >= 0:
		return []wire.Held{{ID: devices[best].ID, Share: api.Units(n.units)}}, free
	case n.units < whole || n.units%whole != 0 || int64(len(held))*whole < n.units:
		return nil, free
	}
	return held, free
}

// what is needed, in words: "0.5 of a gpu", "2 gpus of model a10".
func (n need) what() string {
	text := "a " + n.of.Type
	switch {
	case n.units < whole:
		text = api.Units(n.units).String() + " of a " + n.of.Type
	case n.units > whole:
		text = api.Units(n.units).String() + " " + n.of.Type + "s"
	}
	if len(n.of.Model) > 0 {
		text += " of model " + oneOf(n.of.Model)
	}
	return text
}

func (n need) short(free int64) string {
	if n.units < whole {
		return fmt.Sprintf("needs %s, at most %s of one free", n.what(), api.Units(free))
	}
	return fmt.Sprintf("needs %s, %s free", n.what(), api.Units(free))
}

// lacksDevices says what of the devices asked for a worker does not have, taken or
// not; "" if it has all.
func lacksDevices(devices []Device, demand amount.Vec, list []api.DeviceNeed) string {
	for n := range needs(demand, list) {
		var have int64
		for i := range devices {
			if devices[i].Type == n.of.Type && n.of.Does(devices[i].Model) {
				have += whole
			}
		}
		if have < n.units {
			return "has not " + n.what() + had(devices, n.of.Type)
		}
	}
	return ""
}

// had lists the models of a type that there are, in parentheses.
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
	return " (has " + strings.Join(shorten(models), ", ") + ")"
}

// clusterLacks is lacksDevices for what an aggregate tells.
func clusterLacks(a *wire.Aggregate, demand amount.Vec, list []api.DeviceNeed) string {
	for n := range needs(demand, list) {
		var have int64
		var models []string
		for key, count := range a.Devices {
			typ, model, _ := strings.Cut(key, "/")
			if typ != n.of.Type || count <= 0 {
				continue
			}
			models = append(models, model)
			if n.of.Does(model) {
				have += int64(count)
			}
		}
		if have*whole < n.units && !a.MoreDevices {
			return "has not " + n.what() + inventory(models)
		}
	}
	return ""
}

// Admit says why an instance cannot have what it was given of a worker's devices, ""
// if it can: it is all there, free, and what the instance needs. It is the worker's
// own check of what Give has decided.
func Admit(devices []Device, held []wire.Held, demand api.Resources, list []api.DeviceNeed) string {
	given := make([]Device, 0, len(held))
	for _, h := range held {
		i := slices.IndexFunc(devices, func(d Device) bool { return d.ID == h.ID })
		switch {
		case i < 0:
			return fmt.Sprintf("was given device %s, which is not on this worker", h.ID)
		case h.Share <= 0 || h.Share > whole || slices.ContainsFunc(given, func(d Device) bool { return d.ID == h.ID }):
			return fmt.Sprintf("was given %s of device %s, which cannot be", h.Share, h.ID)
		case int64(h.Share) > amount.SubInt(whole, int64(devices[i].Used)):
			return fmt.Sprintf("needs %s of device %s, %s free", h.Share,
				h.ID, api.Units(amount.SubInt(whole, int64(devices[i].Used))))
		}
		d := devices[i]
		d.Used = whole - h.Share
		given = append(given, d)
	}
	if _, lacking := Give(given, demand, list); lacking != "" {
		return "was not given the devices that it needs: " + lacking
	}
	return ""
}
