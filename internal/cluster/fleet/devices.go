package fleet

import (
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/wire"
)

// Which device of a worker an instance has is decided here and stands in its order:
// the record of what is taken is the orders themselves, so that there is no second
// one to disagree with them. The worker checks it again, as it does all the rest.

// held counts what the orders have of each worker's devices, those too that are about
// to be taken back: the device is free when its instance is gone.
func held(t *state.Tx, use map[string]*Usage) {
	for key, o := range t.Model.Orders {
		if next, ok := t.Orders[key]; ok {
			o = next
		}
		hold(use, key, o)
	}
	for key, o := range t.Orders {
		if _, old := t.Model.Orders[key]; !old {
			hold(use, key, o)
		}
	}
}

func hold(use map[string]*Usage, key string, o *wire.Order) {
	if o == nil || len(o.Devices) == 0 {
		return
	}
	if u := use[key[:len(key)-len(o.ID)-1]]; u != nil {
		u.hold(o.Devices, 1)
	}
}

// hold adds what an order has to what is taken, or takes it off (sign -1).
func (u *Usage) hold(list []wire.Held, sign api.Units) {
	for _, h := range list {
		if u.held == nil {
			u.held = map[string]api.Units{}
		}
		u.held[h.ID] += sign * h.Share
	}
}

// Devices of a worker, none of which is taken.
func Devices(w *state.Worker) []device.Device {
	if len(w.Info.Devices) == 0 {
		return nil
	}
	out := make([]device.Device, len(w.Info.Devices))
	for i, d := range w.Info.Devices {
		out[i].Device = d
	}
	return out
}

// taken fills in what of a worker's devices is taken.
func (u *Usage) taken(devices []device.Device) {
	for i := range devices {
		devices[i].Used = u.held[devices[i].ID]
	}
}

// DevicesFor are the devices that an instance gets on its worker, or what of them is
// lacking there. What an earlier order of it has there counts as free, and stays with
// it where it still does.
func DevicesFor(t *state.Tx, i *wire.Instance, s *wire.Share) ([]wire.Held, string) {
	w, u := t.Model.Workers[i.Worker], Used(t)[i.Worker]
	if w == nil || u == nil || !device.NeededBy(s.Spec) {
		return nil, ""
	}
	devices := Devices(w)
	u.taken(devices)
	if o := t.Ordered(i.Worker + "." + i.ID); o != nil {
		for k := range devices {
			for _, h := range o.Devices {
				if h.ID == devices[k].ID {
					devices[k].Used -= h.Share
				}
			}
		}
		own := slices.DeleteFunc(slices.Clone(devices), func(d device.Device) bool {
			return !slices.ContainsFunc(o.Devices, func(h wire.Held) bool { return h.ID == d.ID })
		})
		if held, lacking := device.Give(own, s.Spec.Resources, s.Spec.Devices); lacking == "" {
			return held, ""
		}
	}
	return device.Give(devices, s.Spec.Resources, s.Spec.Devices)
}

// GiveDevices are the devices for the order of an instance. Where there are too few
// the order has none: its worker refuses it with that reason, and it is placed anew.
func GiveDevices(t *state.Tx, i *wire.Instance, s *wire.Share) []wire.Held {
	held, _ := DevicesFor(t, i, s)
	var had []wire.Held
	if o := t.Ordered(i.Worker + "." + i.ID); o != nil {
		had = o.Devices
	}
	// Without a usage it is counted when somebody asks.
	if u := Pass(t).use[i.Worker]; u != nil && len(had)+len(held) > 0 {
		u.hold(had, -1)
		u.hold(held, 1)
		Rehold(t, i.Worker, t.Model.Workers[i.Worker], u)
	}
	return held
}
