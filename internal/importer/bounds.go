package importer

import (
	"errors"
	"fmt"

	"github.com/verge-edge/verge/api"
)

// maxMade bounds what an import makes of references, in bytes: what stands in place of
// variables, and what services take from files and ConfigMaps that others name as well. Each
// of its descriptors has at most api.MaxDescriptorBytes, and without a bound forty lines ask
// for gigabytes.
const maxMade = 8 << 20

// errMade is that of a text which would be more than maxMade with what was made before.
var errMade = errors.New("refers to too much: what references make is more than " + fmt.Sprint(maxMade>>20) + " MiB together")

// spend counts bytes that are about to be made, and says whether they may be.
func (r *report) spend(bytes int) bool {
	if r.overspent() {
		return false
	}
	r.made += bytes
	return !r.overspent()
}

// perVariable is what one more variable of a service counts at least.
const perVariable = 128

// weight is the text of a service of which others may have the same, in bytes.
func weight(s *api.Service) int {
	n := 0
	for k, v := range s.Env {
		n += len(k) + len(v)
	}
	for at, f := range s.Files {
		n += len(at) + len(f.Content)
	}
	for _, words := range [][]string{s.Command, s.Args} {
		for _, w := range words {
			n += len(w)
		}
	}
	return n
}

// overspent says whether more was asked for than an import may make.
func (r *report) overspent() bool { return r.made > maxMade }

// tooMuch refuses what is at a path, once for an import: all that comes after is too much, too.
func (r *report) tooMuch(d *doc, path []string) {
	if !r.saidTooMuch {
		r.at(Refused, d, path, "%v, and a descriptor has at most %d MiB: let fewer refer to what is large, or make an object of it (verge object put)", errMade, api.MaxDescriptorBytes>>20)
	}
	r.saidTooMuch = true
}
