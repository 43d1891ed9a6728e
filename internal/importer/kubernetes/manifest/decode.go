package manifest

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// decoder reads the fields of objects into the types of k8s.io/api as the API server would, but
// knows the line of each error.
type decoder struct {
	report *report.Report
	doc    *source.Document
	failed bool
}

// Decode reads n into what into points to. It notes errors, and returns true if there were
// none.
func Decode(r *report.Report, o *Object, n *source.Node, path []string, into any) bool {
	d := &decoder{report: r, doc: o.Doc}
	if n != nil {
		d.value(n, path, reflect.ValueOf(into).Elem())
	}
	return !d.failed
}

func (d *decoder) wrong(path []string, format string, args ...any) {
	d.failed = true
	d.report.At(report.Refused, d.doc, path, "Kubernetes would refuse it: "+format, args...)
}

var (
	quantityType  = reflect.TypeFor[resource.Quantity]()
	unmarshalType = reflect.TypeFor[json.Unmarshaler]()
)

func (d *decoder) value(n *source.Node, path []string, v reflect.Value) {
	if n.Kind == source.Scalar && n.Value == nil {
		return // null is the same as absent
	}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, v.Elem())
	case v.Type() == quantityType:
		d.quantity(n, path, v)
	case v.Addr().Type().Implements(unmarshalType):
		text, err := json.Marshal(n.Plain())
		if err == nil {
			err = json.Unmarshal(text, v.Addr().Interface())
		}
		if err != nil {
			d.wrong(path, "%s is not what is written here", source.Quote(n.Text))
		}
	default:
		d.kindOf(n, path, v)
	}
}

// maxQuantity bounds the text of a quantity, in bytes. Its parser computes ten to the power of
// the exponent: a line of text could take all memory.
const maxQuantity = 64

var (
	hugeExponent = pattern.Lazy(`[eE][+-]?[0-9]{3}`)
	errHuge      = errors.New("it is longer than an amount is, or its exponent is")
)

func (d *decoder) quantity(n *source.Node, path []string, v reflect.Value) {
	var q resource.Quantity
	err := errHuge
	if len(n.Text) <= maxQuantity && !hugeExponent().MatchString(n.Text) {
		q, err = resource.ParseQuantity(n.Text)
	}
	if n.Kind != source.Scalar || err != nil {
		d.wrong(path, "%s is not an amount, such as 500m, 2, 128Mi", source.Quote(n.Text))
		return
	}
	v.Set(reflect.ValueOf(q))
}

func (d *decoder) kindOf(n *source.Node, path []string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, path, v)
	case reflect.Map:
		if n.Kind != source.Mapping {
			d.wrong(path, "it is not a mapping")
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for i, k := range n.Keys {
			e := reflect.New(v.Type().Elem()).Elem()
			d.value(n.Values[i], source.Extend(path, k.Name), e)
			v.SetMapIndex(reflect.ValueOf(k.Name).Convert(v.Type().Key()), e)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Text), ""))
			if n.Kind != source.Scalar || err != nil {
				d.wrong(path, "it is not written in base64")
				return
			}
			v.SetBytes(data)
			return
		}
		if n.Kind != source.List {
			d.wrong(path, "it is not a list")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Values), len(n.Values)))
		for i, item := range n.Values {
			d.value(item, source.Extend(path, source.Index(i)), v.Index(i))
		}
	default:
		d.scalar(n, path, v)
	}
}

func (d *decoder) scalar(n *source.Node, path []string, v reflect.Value) {
	if n.Kind != source.Scalar {
		d.wrong(path, "it is not a single value")
		return
	}
	switch v.Kind() {
	case reflect.String:
		s, ok := n.Value.(string)
		if !ok {
			d.wrong(path, "it is not text: write it in quotes") // do not quote it: it may be a secret
			return
		}
		if some := k8s.Values(v.Type().Name()); s != "" && some != nil && !slices.Contains(some, s) {
			d.wrong(path, "%s is not one of its values (%s)", source.Quote(s), strings.Join(some, ", "))
			return
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := n.Value.(bool)
		switch strings.ToLower(n.Text) { // Kubernetes reads YAML 1.1
		case "yes", "on":
			b, ok = true, true
		case "no", "off":
			b, ok = false, true
		}
		if !ok {
			d.wrong(path, "%s is neither true nor false", source.Quote(n.Text))
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int32, reflect.Int64:
		i, ok := whole(n)
		if !ok || v.OverflowInt(i) {
			d.wrong(path, "%s is not a whole number", source.Quote(n.Text))
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.Text, 64)
		if err != nil {
			d.wrong(path, "%s is not a number", source.Quote(n.Text))
			return
		}
		v.SetFloat(f)
	}
}

// whole returns the integer value of a scalar; 0400 is octal, as in YAML 1.1.
func whole(n *source.Node) (int64, bool) {
	if len(n.Text) > 1 && n.Text[0] == '0' && strings.Trim(n.Text, "01234567") == "" {
		if _, text := n.Value.(string); !text {
			i, err := strconv.ParseInt(n.Text, 8, 64)
			return i, err == nil
		}
	}
	switch x := n.Value.(type) {
	case int:
		return int64(x), true
	case float64:
		return int64(x), x == math.Trunc(x) && math.Abs(x) < 1<<53
	}
	return 0, false
}

// structure fills the fields of v, and notes unknown fields as lost.
func (d *decoder) structure(n *source.Node, path []string, v reflect.Value) {
	if n.Kind != source.Mapping {
		d.wrong(path, "it is not a mapping")
		return
	}
	fields := map[string]reflect.Value{}
	jsonFields(v, fields)
	for i, k := range n.Keys {
		at := source.Extend(path, k.Name)
		f, ok := fields[k.Name]
		if !ok {
			d.report.Unknown(d.doc, at, nearestField(k.Name, fields))
			continue
		}
		d.value(n.Values[i], at, f)
	}
}

// jsonFields collects the fields of v by their JSON names, including those of embedded
// structures.
func jsonFields(v reflect.Value, into map[string]reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && (f.Anonymous || options == "inline") && f.Type.Kind() == reflect.Struct:
			jsonFields(v.Field(i), into)
		case name != "" && name != "-":
			into[name] = v.Field(i)
		}
	}
}

// nearestField returns the field that differs from name only in case, "" for none.
func nearestField(name string, fields map[string]reflect.Value) string {
	for f := range fields {
		if strings.EqualFold(f, name) {
			return f
		}
	}
	return ""
}
