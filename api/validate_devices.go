package api

import (
	"fmt"
	"strings"
	"unicode"
)

// counted says that the number of such devices is a resource.
func (d *DeviceNeed) counted() bool { return d.Type == DeviceGPU || d.Type == DeviceTPU }

// IsDeviceType says whether devices may be of a type of that name.
func IsDeviceType(s string) bool { return len(s) <= MaxNameLength && labelRE().MatchString(s) }

// devices checks that what a service asks of devices can be had.
func (v *validator) devices(path string, s *Service) {
	in := func(field string) string { return path + "." + field }
	for _, n := range []struct {
		field string
		units Units
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
			v.complain(at+".type", quote(d.Type)+" is listed twice", "write one entry for each type; model takes a list")
		}
		first[d.Type] = true
		if d.counted() {
			resource := "resources.v" + d.Type + "s"
			if _, given := v.seen[at+".count"]; given {
				v.complain(at+".count", "the number of these is in "+resource, "write it there, and here the model alone")
			}
			if _, given := v.seen[in(resource)]; !given {
				v.complain(at, "is about devices of which the service asks for none", "write "+resource+": 1, or leave the entry out")
			}
		}
		for k, model := range d.Model {
			if DeviceModel(model) == "" {
				v.complain(fmt.Sprintf("%s.model[%d]", at, k), quote(model)+" is not the name of a model", "write letters and digits, at most 63 characters: a10")
			}
		}
		v.distinct(at+".model", d.Model)
	}
}

// DeviceModel is the one form of a model's name: small letters, digits and dots in
// words that - divides ("nvidia-a10"). It is "" where that leaves nothing, or too much.
func DeviceModel(s string) string {
	if len(s) > 4*MaxNameLength {
		return ""
	}
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return r != '.' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
	if s = strings.Join(words, "-"); len(s) > MaxNameLength {
		return ""
	}
	return s
}

// Does says whether a device of a model is one that d asks for: the words of one of
// d.Model follow each other in it.
func (d *DeviceNeed) Does(model string) bool {
	model = "-" + DeviceModel(model) + "-"
	for _, want := range d.Model {
		if w := DeviceModel(want); w != "" && strings.Contains(model, "-"+w+"-") {
			return true
		}
	}
	return len(d.Model) == 0
}
