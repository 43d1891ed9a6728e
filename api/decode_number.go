package api

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/verge-edge/verge/api/pattern"
)

// The numbers of JSON. NaN, infinities, hexadecimal digits and leading zeros,
// which some readers of YAML know, are none.
var numberRE = pattern.Lazy(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// number decodes a fraction within the bounds of the verdict table.
func (d *decoder) number(n *node, v reflect.Value, at where) {
	row := verdict(at.pattern)
	if x, ok := d.float(n, at, float64(row.Min), float64(row.Max)); ok {
		v.SetFloat(x)
	}
}

func (d *decoder) float(n *node, at where, least, most float64) (float64, bool) {
	if n.kind == aliasKind {
		return d.float(n.target, at, least, most)
	}
	if n.kind != scalarKind || !n.plain || n.tag != "" || len(n.text) > maxAmountDigits || !numberRE().MatchString(n.text) {
		found := map[kind]string{scalarKind: quote(n.text), nullKind: "nothing", mappingKind: "a mapping", listKind: "a list"}[n.kind]
		d.fail(n.pos, at.path, "expected a number, found "+found, fmt.Sprintf("write a decimal number from %g to %g", least, most))
		return 0, false
	}
	x, err := strconv.ParseFloat(n.text, 64)
	if err != nil || x < least || x > most {
		d.fail(n.pos, at.path, fmt.Sprintf("%s is not between %g and %g", quote(n.text), least, most), "")
		return 0, false
	}
	return x + 0, true // no negative zero
}

// Bounds of the two numbers of a point.
var pointBounds = [2]struct {
	name        string
	least, most float64
}{{"latitude", -90, 90}, {"longitude", -180, 180}}

// point decodes [latitude, longitude].
func (d *decoder) point(n *node, v reflect.Value, at where) {
	if n.kind != listKind || len(n.values) != len(pointBounds) {
		d.fail(n.pos, at.path, "expected the two numbers of a point", "write [latitude, longitude], in degrees: [48.14, 11.58]")
		return
	}
	for i, item := range n.values {
		if !d.spend(item, at) {
			return
		}
		b := pointBounds[i]
		x, ok := d.float(item, at.item(i), b.least, b.most)
		if !ok {
			return
		}
		v.Index(i).SetFloat(x)
	}
}

// truth decodes true and false; the yes and on of older YAML are texts.
func (d *decoder) truth(n *node, v reflect.Value, at where) {
	if n.kind != scalarKind || !n.plain || n.text != "true" && n.text != "false" {
		found := map[kind]string{scalarKind: quote(n.text), mappingKind: "a mapping", listKind: "a list"}[n.kind]
		d.fail(n.pos, at.path, "expected true or false, found "+found, "write true or false, without quotes")
		return
	}
	v.SetBool(n.text == "true")
}
