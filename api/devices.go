package api

import (
	"strings"
	"unicode"
)

// Counted says that the number of such devices is a resource.
func (d *DeviceNeed) Counted() bool { return d.Type == DeviceGPU || d.Type == DeviceTPU }

// IsDeviceType says whether devices may be of a type of that name.
func IsDeviceType(s string) bool { return len(s) <= MaxNameLength && nameRE().MatchString(s) }

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
