package descriptor

import (
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
)

// devices checks that what a service asks of devices can be had.
func (v *validator) devices(path string, s *api.Service) {
	in := func(field string) string { return path + "." + field }
	for _, n := range []struct {
		field string
		units api.Units
	}{{"resources.vgpus", s.Resources.VGPUs}, {"resources.vtpus", s.Resources.VTPUs}} {
		if why := n.units.Splits(); why != "" {
			v.complain(in(n.field), why, "write a share of one (0.5), or 1, 2 and so on")
		}
	}
	first := map[string]bool{}
	for i := range s.Devices {
		d, at := &s.Devices[i], fmt.Sprintf("%s[%d]", in("devices"), i)
		v.label(at+".type", d.Type, "a device", "camera")
		if first[d.Type] && d.Type != "" {
			v.complain(at+".type", words.Quote(d.Type)+" is listed twice", "write one entry for each type; model takes a list")
		}
		first[d.Type] = true
		if d.Counted() {
			resource := "resources.v" + d.Type + "s"
			if _, given := v.seen[at+".count"]; given {
				v.complain(at+".count", "the number of these is in "+resource, "write it there, and here the model alone")
			}
			if _, given := v.seen[in(resource)]; !given {
				v.complain(at, "is about devices of which the service asks for none",
					"write "+resource+": 1, or leave the entry out")
			}
		}
		for k, model := range d.Model {
			if api.DeviceModel(model) == "" {
				v.complain(fmt.Sprintf("%s.model[%d]", at, k), words.Quote(model)+" is not the name of a model",
					"write letters and digits, at most 63 characters: a10")
			}
		}
		v.distinct(at+".model", d.Model)
	}
}
