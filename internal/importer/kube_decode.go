package importer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/k8s"
)

// object is one of Kubernetes, in a document or in a list in one.
type object struct {
	doc  *doc
	base []string // its path in the document
	root *node
	// group, version and kind, as they are written.
	group, version, kind string
	meta                 k8s.ObjectMeta
}

// at is the path of a field.
func (o *object) at(path ...string) []string { return extend(o.base, path...) }

// title is what people call it: Deployment web.
func (o *object) title() string { return strings.TrimSpace(o.kind + " " + o.meta.Name) }

// kubeDecoder reads the fields of objects into the types of k8s.io/api as the API
// server would, but knows the line of what is wrong.
type kubeDecoder struct {
	report *report
	doc    *doc
	failed bool
}

// decode reads n into what into points to. It says whether all was right; what was wrong
// is noted.
func decodeInto(r *report, o *object, n *node, path []string, into any) bool {
	d := &kubeDecoder{report: r, doc: o.doc}
	if n != nil {
		d.value(n, path, reflect.ValueOf(into).Elem())
	}
	return !d.failed
}

func (d *kubeDecoder) wrong(path []string, format string, args ...any) {
	d.failed = true
	d.report.at(Refused, d.doc, path, "Kubernetes would refuse it: "+format, args...)
}

var (
	quantityType  = reflect.TypeFor[resource.Quantity]()
	unmarshalType = reflect.TypeFor[json.Unmarshaler]()
)

func (d *kubeDecoder) value(n *node, path []string, v reflect.Value) {
	if n.kind == scalarKind && n.value == nil {
		return // null is silence
	}
	switch {
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, path, v.Elem())
	case v.Type() == quantityType:
		d.quantity(n, path, v)
	case v.Addr().Type().Implements(unmarshalType):
		text, err := json.Marshal(n.plain())
		if err == nil {
			err = json.Unmarshal(text, v.Addr().Interface())
		}
		if err != nil {
			d.wrong(path, "%s is not what is written here", quote(n.text))
		}
	default:
		d.kindOf(n, path, v)
	}
}

// maxQuantity bounds the text of a quantity, in bytes. Its parser computes ten to the power
// of its exponent: a line of text would take all the memory.
const maxQuantity = 64

var (
	hugeExponent = pattern.Lazy(`[eE][+-]?[0-9]{3}`)
	errHuge      = errors.New("it is longer than an amount is, or its exponent is")
)

func (d *kubeDecoder) quantity(n *node, path []string, v reflect.Value) {
	var q resource.Quantity
	err := errHuge
	if len(n.text) <= maxQuantity && !hugeExponent().MatchString(n.text) {
		q, err = resource.ParseQuantity(n.text)
	}
	if n.kind != scalarKind || err != nil {
		d.wrong(path, "%s is no amount, such as 500m, 2, 128Mi", quote(n.text))
		return
	}
	v.Set(reflect.ValueOf(q))
}

func (d *kubeDecoder) kindOf(n *node, path []string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, path, v)
	case reflect.Map:
		if n.kind != mappingKind {
			d.wrong(path, "it is no mapping")
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for i, k := range n.keys {
			e := reflect.New(v.Type().Elem()).Elem()
			d.value(n.values[i], extend(path, k.name), e)
			v.SetMapIndex(reflect.ValueOf(k.name).Convert(v.Type().Key()), e)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.text), ""))
			if n.kind != scalarKind || err != nil {
				d.wrong(path, "it is not written in base64")
				return
			}
			v.SetBytes(data)
			return
		}
		if n.kind != listKind {
			d.wrong(path, "it is no list")
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.values), len(n.values)))
		for i, item := range n.values {
			d.value(item, extend(path, index(i)), v.Index(i))
		}
	default:
		d.scalar(n, path, v)
	}
}

func (d *kubeDecoder) scalar(n *node, path []string, v reflect.Value) {
	if n.kind != scalarKind {
		d.wrong(path, "it is no single value")
		return
	}
	switch v.Kind() {
	case reflect.String:
		s, ok := n.value.(string)
		if !ok {
			d.wrong(path, "it is no text: write it in quotes") // which it may be that nobody should see
			return
		}
		if some := k8s.Values(v.Type().Name()); s != "" && some != nil && !slices.Contains(some, s) {
			d.wrong(path, "%s is none of its values (%s)", quote(s), strings.Join(some, ", "))
			return
		}
		v.SetString(s)
	case reflect.Bool:
		b, ok := n.value.(bool)
		switch strings.ToLower(n.text) { // YAML 1.1, as Kubernetes reads it
		case "yes", "on":
			b, ok = true, true
		case "no", "off":
			b, ok = false, true
		}
		if !ok {
			d.wrong(path, "%s is neither true nor false", quote(n.text))
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int32, reflect.Int64:
		i, ok := whole(n)
		if !ok || v.OverflowInt(i) {
			d.wrong(path, "%s is no whole number", quote(n.text))
			return
		}
		v.SetInt(i)
	case reflect.Float64:
		f, err := strconv.ParseFloat(n.text, 64)
		if err != nil {
			d.wrong(path, "%s is no number", quote(n.text))
			return
		}
		v.SetFloat(f)
	}
}

// whole is the whole number that a scalar is; 0400 is octal, as in YAML 1.1.
func whole(n *node) (int64, bool) {
	if len(n.text) > 1 && n.text[0] == '0' && strings.Trim(n.text, "01234567") == "" {
		if _, text := n.value.(string); !text {
			i, err := strconv.ParseInt(n.text, 8, 64)
			return i, err == nil
		}
	}
	switch x := n.value.(type) {
	case int:
		return int64(x), true
	case float64:
		return int64(x), x == math.Trunc(x) && math.Abs(x) < 1<<53
	}
	return 0, false
}

// structure fills the fields of v. What is no field is noted, as lost.
func (d *kubeDecoder) structure(n *node, path []string, v reflect.Value) {
	if n.kind != mappingKind {
		d.wrong(path, "it is no mapping")
		return
	}
	fields := map[string]reflect.Value{}
	jsonFields(v, fields)
	for i, k := range n.keys {
		at := extend(path, k.name)
		f, ok := fields[k.name]
		if !ok {
			d.report.unknown(d.doc, at, nearestField(k.name, fields))
			continue
		}
		d.value(n.values[i], at, f)
	}
}

// jsonFields are the fields of v by their names in JSON, those of embedded structures
// too.
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

// nearestField is the field that somebody meant who wrote name, "" if nobody knows.
func nearestField(name string, fields map[string]reflect.Value) string {
	for f := range fields {
		if strings.EqualFold(f, name) {
			return f
		}
	}
	return ""
}

// unknown notes what is no field of Kubernetes, which leftovers then leaves alone.
func (r *report) unknown(d *doc, path []string, meant string) {
	text := "is no field of Kubernetes here, and not carried over"
	if meant != "" {
		text += ": it is written " + meant
	}
	r.at(Lost, d, path, "%s", text)
	if r.strange == nil {
		r.strange = map[string]bool{}
	}
	r.strange[strangeKey(d, path)] = true
}

func strangeKey(d *doc, path []string) string {
	return fmt.Sprintf("%p %s", d, strings.Join(path, "\x00"))
}
