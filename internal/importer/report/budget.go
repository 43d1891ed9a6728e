package report

import (
	"errors"
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/source"
)

// MaxMade bounds what an import makes of references, in bytes: what stands in place of
// variables, and what services take from files and ConfigMaps that others name as well. Each
// of its descriptors has at most api.MaxDescriptorBytes, and without a bound forty lines ask
// for gigabytes.
const MaxMade = 8 << 20

// ErrTooMuch is that of a text which would be more than maxMade with what was made before.
var ErrTooMuch = errors.New("refers to too much: what references make is more than " + fmt.Sprint(MaxMade>>20) +
	" MiB together")

// Spend counts bytes that are about to be made, and says whether they may be.
func (r *Report) Spend(bytes int) bool {
	if r.Overspent() {
		return false
	}
	r.made += bytes
	return !r.Overspent()
}

// PerVariable is what one more variable of a service counts at least.
const PerVariable = 128

// Overspent says whether more was asked for than an import may make.
func (r *Report) Overspent() bool { return r.made > MaxMade }

// TooMuch refuses what is at a path, once for an import: all that comes after is too much, too.
func (r *Report) TooMuch(d *source.Document, path []string) {
	if !r.SaidTooMuch {
		r.At(Refused, d, path, "%v, and a descriptor has at most %d MiB: let fewer refer to what is large, or make an "+
			"object of it (verge object put)", ErrTooMuch, api.MaxDescriptorBytes>>20)
	}
	r.SaidTooMuch = true
}
