package descriptor

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/api/schema"
)

// The numbers of JSON. NaN, infinities, hexadecimal digits and leading zeros,
// which some readers of YAML know, are none.
// decimalRE is a number as JSON has it.
var decimalRE = pattern.Lazy(pattern.Number)

// number decodes a fraction within the bounds of its specification.
func (d *decoder) number(n *node, v reflect.Value, at where) {
	row := schema.SpecOf(at.pattern)
	if x, ok := d.float(n, at, float64(row.Min), float64(row.Max)); ok {
		v.SetFloat(x)
	}
}

func (d *decoder) float(n *node, at where, least, most float64) (float64, bool) {
	if n.kind == aliasKind {
		return d.float(n.target, at, least, most)
	}
	if n.kind != scalarKind || !n.plain || n.tag != "" || len(n.text) > api.MaxAmountDigits ||
		!decimalRE().MatchString(n.text) {
		found := map[kind]string{scalarKind: words.Quote(n.text), nullKind: "nothing", mappingKind: "a mapping",
			listKind: "a list"}[n.kind]
		d.fail(n.pos, at.path, "expected a number, found "+found,
			fmt.Sprintf("write a decimal number from %g to %g", least, most))
		return 0, false
	}
	x, err := strconv.ParseFloat(n.text, 64)
	if err != nil || x < least || x > most {
		d.fail(n.pos, at.path, fmt.Sprintf("%s is not between %g and %g", words.Quote(n.text), least, most), "")
		return 0, false
	}
	return x + 0, true // no negative zero
}

// point decodes [latitude, longitude].
func (d *decoder) point(n *node, v reflect.Value, at where) {
	if n.kind != listKind || len(n.values) != len(api.PointBounds) {
		d.fail(n.pos, at.path, "expected the two numbers of a point",
			"write [latitude, longitude], in degrees: [48.14, 11.58]")
		return
	}
	for i, item := range n.values {
		if !d.spend(item, at) {
			return
		}
		b := api.PointBounds[i]
		x, ok := d.float(item, at.item(i), b.Least, b.Most)
		if !ok {
			return
		}
		v.Index(i).SetFloat(x)
	}
}

// truth decodes true and false; the yes and on of older YAML are texts.
func (d *decoder) truth(n *node, v reflect.Value, at where) {
	if n.kind != scalarKind || !n.plain || n.text != "true" && n.text != "false" {
		found := map[kind]string{scalarKind: words.Quote(n.text), mappingKind: "a mapping", listKind: "a list"}[n.kind]
		d.fail(n.pos, at.path, "expected true or false, found "+found, "write true or false, without quotes")
		return
	}
	v.SetBool(n.text == "true")
}
