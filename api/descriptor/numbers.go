package descriptor

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/api/schema"
	"github.com/verge-edge/verge/internal/yamltree"
)

// The numbers of JSON. NaN, infinities, hexadecimal digits and leading zeros,
// which some readers of YAML know, are none.
// decimalRE is a number as JSON has it.
var decimalRE = pattern.Lazy(pattern.Number)

// number decodes a fraction within the bounds of its specification.
func (d *decoder) number(n *yamltree.Node, v reflect.Value, at where) {
	row := schema.SpecOf(at.pattern)
	if x, ok := d.float(n, at, float64(row.Min), float64(row.Max)); ok {
		v.SetFloat(x)
	}
}

func (d *decoder) float(n *yamltree.Node, at where, least, most float64) (float64, bool) {
	if n.Kind == yamltree.Alias {
		return d.float(n.Target, at, least, most)
	}
	if n.Kind != yamltree.Scalar || !n.Plain || n.Tag != "" || len(n.Text) > api.MaxAmountDigits ||
		!decimalRE().MatchString(n.Text) {
		found := map[yamltree.Kind]string{yamltree.Scalar: words.Quote(n.Text), yamltree.Null: "nothing", yamltree.Mapping: "a mapping",
			yamltree.List: "a list"}[n.Kind]
		d.fail(n.Pos, at.path, "expected a number, found "+found,
			fmt.Sprintf("write a decimal number from %g to %g", least, most))
		return 0, false
	}
	x, err := strconv.ParseFloat(n.Text, 64)
	if err != nil || x < least || x > most {
		d.fail(n.Pos, at.path, fmt.Sprintf("%s is not between %g and %g", words.Quote(n.Text), least, most), "")
		return 0, false
	}
	return x + 0, true // no negative zero
}

// point decodes [latitude, longitude].
func (d *decoder) point(n *yamltree.Node, v reflect.Value, at where) {
	if n.Kind != yamltree.List || len(n.Values) != len(api.PointBounds) {
		d.fail(n.Pos, at.path, "expected the two numbers of a point",
			"write [latitude, longitude], in degrees: [48.14, 11.58]")
		return
	}
	for i, item := range n.Values {
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
func (d *decoder) truth(n *yamltree.Node, v reflect.Value, at where) {
	if n.Kind != yamltree.Scalar || !n.Plain || n.Text != "true" && n.Text != "false" {
		found := map[yamltree.Kind]string{yamltree.Scalar: words.Quote(n.Text), yamltree.Mapping: "a mapping", yamltree.List: "a list"}[n.Kind]
		d.fail(n.Pos, at.path, "expected true or false, found "+found, "write true or false, without quotes")
		return
	}
	v.SetBool(n.Text == "true")
}
