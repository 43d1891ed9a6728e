package records

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"unicode/utf8"
)

// differ says whether two records have different values in a field that is stored as it is, a
// number or a text: then what is stored of them differs, and neither has to be encoded to know
// it. false says nothing.
func differ(a, b any) bool {
	x, y := reflect.Indirect(reflect.ValueOf(a)), reflect.Indirect(reflect.ValueOf(b))
	if !x.IsValid() || !y.IsValid() || x.Type() != y.Type() || x.Kind() != reflect.Struct {
		return false
	}
	for _, at := range plainFields(x.Type()) {
		if f, g := x.FieldByIndex(at), y.FieldByIndex(at); f.Kind() != reflect.String {
			if !f.Equal(g) {
				return true
			}
		} else if s, t := f.String(), g.String(); s != t && utf8.ValidString(s) && utf8.ValidString(t) {
			return true
		}
	}
	return false
}

// plain has the plainFields of types.
var plain sync.Map

// plainFields are the fields of a type that JSON has under a name of their own, and of which
// two values are never written alike.
func plainFields(t reflect.Type) [][]int {
	if known, ok := plain.Load(t); ok {
		return known.([][]int)
	}
	var out [][]int
	if !writesItself(t) {
		names := map[string]int{} // how many fields there are of a name: JSON shows one of them at most
		for _, f := range reflect.VisibleFields(t) {
			name, _ := nameOf(f)
			names[strings.ToLower(name)]++
		}
		for _, f := range reflect.VisibleFields(t) {
			if name, stored := nameOf(f); stored && names[strings.ToLower(name)] == 1 && isPlain(f.Type) && within(t, f.Index) {
				out = append(out, f.Index)
			}
		}
	}
	plain.Store(t, out)
	return out
}

// nameOf is the name of a field in JSON, and whether it has one.
func nameOf(f reflect.StructField) (name string, stored bool) {
	tag, ok := f.Tag.Lookup("json")
	if name, _, _ = strings.Cut(tag, ","); ok && name != "" && name != "-" {
		return name, f.IsExported()
	}
	return f.Name, f.IsExported() && tag != "-" && !f.Anonymous
}

// within says whether a field lies in the record itself: in embedded structs that are written
// field by field, and not behind a pointer.
func within(t reflect.Type, index []int) bool {
	for _, i := range index[:len(index)-1] {
		f := t.Field(i)
		if t = f.Type; f.Tag.Get("json") != "" || t.Kind() != reflect.Struct || writesItself(t) {
			return false
		}
	}
	return true
}

// isPlain says whether JSON writes different values of a type differently.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		_, zero := t.MethodByName("IsZero")
		return !zero && !writesItself(t)
	default:
		return false
	}
}

// writesItself says whether a type has a form of its own in JSON.
func writesItself(t reflect.Type) bool {
	for _, as := range [...]reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(as) || reflect.PointerTo(t).Implements(as) {
			return true
		}
	}
	return false
}
