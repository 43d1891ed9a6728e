package descriptor

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/yamltree"
)

// placed is where a key and its value stand in the file.
type placed struct{ key, value yamltree.Pos }

// hostTLS is how a host has been given TLS in a descriptor.
type hostTLS struct {
	path string
	tls  api.IngressTLS
}

func (v *validator) distinct(path string, names []string) {
	first := map[string]bool{}
	for i, name := range names {
		if first[name] {
			v.complain(fmt.Sprintf("%s[%d]", path, i), words.Quote(name)+" is listed twice", "remove one of them")
		}
		first[name] = true
	}
}

// validator checks what a single field cannot: names, references, and fields
// against each other. Complaints that would follow from another are left out.
type validator struct {
	*report
	app   *api.Application
	seen  map[string]placed
	hosts map[string]string // path of the port that has it, by host name and path, or port of the gateways
	// certificates by host name, as the first port of it says.
	certificates map[string]hostTLS
	// addressed are the paths that have a service address.
	addressed map[netip.Addr]string
	// services by the variables of their addresses, and the variables of the first
	// ports; made at the first reference.
	services  map[string]string
	addresses []string
}

// at is the place of the value at path, or of the nearest thing around it.
func (v *validator) at(path string) yamltree.Pos {
	for ; path != ""; path = enclosing(path) {
		if p, ok := v.seen[path]; ok {
			return p.value
		}
	}
	return yamltree.Pos{Line: 1, Column: 1}
}

// keyAt is the same for the key.
func (v *validator) keyAt(path string) yamltree.Pos {
	if p, ok := v.seen[path]; ok {
		return p.key
	}
	return v.at(path)
}

// complain reports unless the value was complained about already. What is
// missing is reported at the key of what should have it.
func (v *validator) complain(path, message, remedy string) {
	if v.spoiled(path) {
		return
	}
	at := v.at(path)
	if _, given := v.seen[path]; !given {
		at = v.keyAt(enclosing(path))
	}
	v.fail(at, path, message, remedy)
}

var labelRE = pattern.Lazy(pattern.Label)

var siteRE = pattern.Lazy(pattern.Site)

var pathRE = pattern.Lazy(pattern.Path)

func (v *validator) label(path, name, what, example string) {
	switch {
	case v.spoiled(path):
	case name == "":
		v.complain(path, "is missing: "+what+" has a name", "write "+path[strings.LastIndexByte(path, '.')+1:]+": "+example)
	case len(name) > api.MaxNameLength:
		v.complain(path, fmt.Sprintf("%s has %d characters, a name has at most %d", words.Quote(name), len(name),
			api.MaxNameLength), "")
	case !labelRE().MatchString(name):
		v.complain(path, words.Quote(name)+" is not a name",
			"use small letters, digits and -, begin with a letter, do not end with -")
	}
}
