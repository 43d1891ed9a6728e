// Package clonetest checks by reflection that the clone of a struct shares nothing
// that changes with its original, that working on a clone leaves the original as it
// was, and that records which are shared are never modified. It sees unexported
// fields too, so a new field is covered without a test of its own. Only tests use it.
package clonetest

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// Immutable reports whether values of a type, found at a path such as
// "model.workers[].inbox", may be shared: nobody modifies them once they are stored
// there, or they are safe for concurrent use and hold no state.
type Immutable func(path string, t reflect.Type) bool

// Stored reports whether values of t, found at a path of a model with a table.DB, are
// replaced as a whole: times, what is in a table and what its schema says, and whatever
// the packages with these names declare.
func Stored(at string, t reflect.Type, packages ...string) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch dir, pkg := path.Split(t.PkgPath()); {
	case t == reflect.TypeFor[time.Time](), strings.HasPrefix(at, "Model.DB.rows[].byKey[]"):
		return true
	case pkg == "table":
		return t.Name() != "DB" && !strings.HasPrefix(t.Name(), "tableRows")
	default:
		return dir != "" && slices.Contains(packages, pkg)
	}
}

// Fill populates everything that can be reached from p, a pointer to a struct: every
// map and slice gets an element, every pointer something to point to. It stops at
// immutable values, and leaves functions, channels and interfaces as they are.
func Fill(p any, immutable Immutable) {
	v := reflect.ValueOf(p).Elem()
	fill(v, name(v.Type()), immutable, nil)
}

func fill(v reflect.Value, path string, immutable Immutable, within []reflect.Type) {
	t := v.Type()
	if slices.Contains(within, t) {
		return // a recursive type: one level of it is enough
	}
	if t.Kind() == reflect.Struct {
		within = append(slices.Clip(within), t)
	}
	stop := immutable(path, t)
	switch t.Kind() {
	case reflect.Struct:
		for n := 0; n < t.NumField() && !stop; n++ {
			f := v.Field(n)
			fill(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), path+"."+t.Field(n).Name, immutable, within)
		}
	case reflect.Array:
		for n := 0; n < v.Len() && !stop; n++ {
			fill(v.Index(n), path+"[]", immutable, within)
		}
	case reflect.Pointer:
		to := reflect.New(t.Elem())
		if v.Set(to); !stop {
			fill(to.Elem(), path, immutable, within)
		}
	case reflect.Map:
		key, value := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if key.Kind() == reflect.String {
			key.SetString("x")
		}
		if !stop {
			fill(value, path+"[]", immutable, within)
		}
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 2)) // with room, so that an append to one would be seen in the other
		if !stop {
			fill(v.Index(0), path+"[]", immutable, within)
		}
	}
}

// Shared lists the paths of the maps, slices, pointers, channels, functions and
// interfaces that are reached from both a and b, pointers to structs of one type, and
// that are not immutable.
func Shared(a, b any, immutable Immutable) []string {
	out := map[string]bool{}
	v := reflect.ValueOf(a).Elem()
	shared(v, reflect.ValueOf(b).Elem(), name(v.Type()), immutable, out)
	return slices.Sorted(maps.Keys(out))
}

func shared(a, b reflect.Value, path string, immutable Immutable, out map[string]bool) {
	t := a.Type()
	if immutable(path, t) {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		for n := range t.NumField() {
			shared(a.Field(n), b.Field(n), path+"."+t.Field(n).Name, immutable, out)
		}
	case reflect.Array:
		for n := range t.Len() {
			shared(a.Index(n), b.Index(n), path+"[]", immutable, out)
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		if !a.IsNil() && !b.IsNil() {
			out[path] = true // two closures over one variable look different: nothing can be proved
		}
	case reflect.Interface:
		switch {
		case a.IsNil() || b.IsNil():
		case a.Elem().Type() != b.Elem().Type():
			out[path] = true
		default:
			shared(a.Elem(), b.Elem(), path, immutable, out)
		}
	case reflect.Pointer, reflect.Map, reflect.Slice:
		switch {
		case a.IsNil() || b.IsNil():
		case a.Pointer() == b.Pointer():
			out[path] = true
		case t.Kind() == reflect.Pointer:
			shared(a.Elem(), b.Elem(), path, immutable, out)
		case t.Kind() == reflect.Map:
			for k, v := range a.Seq2() {
				if w := b.MapIndex(k); w.IsValid() {
					shared(v, w, path+"[]", immutable, out)
				}
			}
		default:
			for n := range min(a.Len(), b.Len()) {
				shared(a.Index(n), b.Index(n), path+"[]", immutable, out)
			}
		}
	}
}

// Text is all that can be reached from v, as text: equal texts are equal values.
// Functions, channels and what skip says are left out; nil skips nothing.
func Text(v any, skip Immutable) string {
	var b strings.Builder
	if skip == nil {
		skip = func(string, reflect.Type) bool { return false }
	}
	r := reflect.ValueOf(v)
	text(&b, r, name(r.Type()), skip, nil)
	return b.String()
}

func text(b *strings.Builder, v reflect.Value, path string, skip Immutable, within []unsafe.Pointer) {
	t := v.Type()
	if skip(path, t) {
		return
	}
	if t == reflect.TypeFor[time.Time]() { // the time zone is a pointer to a table
		fmt.Fprint(b, v)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		b.WriteString("{")
		for n := range t.NumField() {
			b.WriteString(t.Field(n).Name + ":")
			text(b, v.Field(n), path+"."+t.Field(n).Name, skip, within)
			b.WriteString(" ")
		}
		b.WriteString("}")
	case reflect.Array, reflect.Slice:
		b.WriteString("[")
		for n := range v.Len() {
			text(b, v.Index(n), path+"[]", skip, within)
			b.WriteString(" ")
		}
		b.WriteString("]")
	case reflect.Map:
		var entries []string
		for k, x := range v.Seq2() {
			var e strings.Builder
			text(&e, k, path+"[]", skip, within)
			e.WriteString("=")
			text(&e, x, path+"[]", skip, within)
			entries = append(entries, e.String())
		}
		slices.Sort(entries)
		b.WriteString("map[" + strings.Join(entries, "\n") + "]")
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("nil")
			return
		}
		if p := v.UnsafePointer(); !slices.Contains(within, p) {
			text(b, v.Elem(), path, skip, append(slices.Clip(within), p))
		}
	case reflect.Interface:
		if !v.IsNil() {
			b.WriteString(v.Elem().Type().String())
			text(b, v.Elem(), path, skip, within)
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
	default:
		fmt.Fprintf(b, "%#v", v)
	}
}

// Records remembers the immutable values behind pointers that it has seen, to find
// those that somebody modifies after all.
type Records struct {
	seen map[unsafe.Pointer]record
}

type record struct {
	keeps any // so that the address is not used again
	path  string
	text  string
}

// Check looks at all immutable values behind pointers that can be reached from p, and
// lists those that differ from what they were when it saw them first.
func (r *Records) Check(p any, immutable Immutable) (modified []string) {
	if r.seen == nil {
		r.seen = map[unsafe.Pointer]record{}
	}
	v := reflect.ValueOf(p).Elem()
	r.look(v, name(v.Type()), immutable)
	for _, x := range r.seen {
		if is := Text(x.keeps, nil); is != x.text {
			modified = append(modified, fmt.Sprintf("%s was modified:\n%s\n%s", x.path, x.text, is))
		}
	}
	slices.Sort(modified)
	return modified
}

func (r *Records) look(v reflect.Value, path string, immutable Immutable) {
	t := v.Type()
	if t.Kind() == reflect.Pointer && !v.IsNil() && immutable(path, t) && t.Elem().Kind() == reflect.Struct {
		if at := v.UnsafePointer(); r.seen[at].keeps == nil {
			keeps := reflect.NewAt(t.Elem(), at).Interface()
			r.seen[at] = record{keeps, path, Text(keeps, nil)}
		}
		return
	}
	if immutable(path, t) {
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		for n := range t.NumField() {
			r.look(v.Field(n), path+"."+t.Field(n).Name, immutable)
		}
	case reflect.Array, reflect.Slice:
		for n := range v.Len() {
			r.look(v.Index(n), path+"[]", immutable)
		}
	case reflect.Map:
		for _, x := range v.Seq2() {
			r.look(x, path+"[]", immutable)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			r.look(v.Elem(), path, immutable)
		}
	}
}

// name of a type without its package.
func name(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}
