package report

import (
	"errors"
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/source"
)

// MaxMade bounds the bytes that an import expands from references: values of variables, and files
// and ConfigMaps that several services name. Each descriptor has at most api.MaxDescriptorBytes,
// but without this bound forty lines can expand to gigabytes.
const MaxMade = 8 << 20

// ErrTooMuch: a text would exceed MaxMade together with earlier ones.
var ErrTooMuch = errors.New("refers to too much: what references make is more than " + fmt.Sprint(MaxMade>>20) +
	" MiB together")

// Spend counts bytes before they are expanded, and says whether that is within the bound.
func (r *Report) Spend(bytes int) bool {
	if r.Overspent() {
		return false
	}
	r.made += bytes
	return !r.Overspent()
}

// PerVariable is the least cost of a variable of a service.
const PerVariable = 128

// Overspent says whether the bound was exceeded.
func (r *Report) Overspent() bool { return r.made > MaxMade }

// TooMuch refuses the value at a path, once per import: everything after it exceeds the bound too.
func (r *Report) TooMuch(d *source.Document, path []string) {
	if !r.SaidTooMuch {
		r.At(Refused, d, path, "%v, and a descriptor has at most %d MiB: let fewer refer to what is large, or make an "+
			"object of it (verge object put)", ErrTooMuch, api.MaxDescriptorBytes>>20)
	}
	r.SaidTooMuch = true
}
