package shape

import (
	"encoding"
	"reflect"
	"strings"

	"github.com/verge-edge/verge/api"
)

// Field is a field of the descriptor as the structs have it.
type Field struct {
	Pattern string // "services.*.ports[].name"
	Type    reflect.Type
}

// Fields walks the structs of the descriptor in their order.
func Fields() []Field {
	var list []Field
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			f := t.Field(i)
			pattern := Join(prefix, KeyOf(f))
			list = append(list, Field{pattern, f.Type})
			inner, suffix := element(f.Type)
			if isStruct(inner) {
				walk(inner, pattern+suffix)
			}
		}
	}
	walk(reflect.TypeFor[api.Application](), "")
	return list
}

// element unwraps pointers, lists and mappings, and returns how that is written
// in a pattern.
func element(t reflect.Type) (reflect.Type, string) {
	switch t.Kind() {
	case reflect.Pointer:
		return element(t.Elem())
	case reflect.Slice:
		inner, rest := element(t.Elem())
		return inner, "[]" + rest
	case reflect.Map:
		inner, rest := element(t.Elem())
		return inner, ".*" + rest
	}
	return t, ""
}

// KeyOf is the name of a field in the descriptor.
func KeyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// Join appends a key to a path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Types that are written in a form of their own.
var (
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	ReplicasType = reflect.TypeFor[api.Replicas]()
	PointType    = reflect.TypeFor[api.Point]()
	CheckType    = reflect.TypeFor[api.Check]()
	PolicyType   = reflect.TypeFor[api.Policy]()
	TLSType      = reflect.TypeFor[api.IngressTLS]()
)

// IsText says whether t is written as a text with a syntax of its own (a unit).
func IsText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textType) }

func isStruct(t reflect.Type) bool { return t.Kind() == reflect.Struct && !IsText(t) }

// TypeName says in words what to write for a value of type t.
func TypeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[api.CPU]():
		return "amount of cpu"
	case reflect.TypeFor[api.Units]():
		return "number of devices"
	case reflect.TypeFor[api.Bytes]():
		return "amount of bytes"
	case reflect.TypeFor[api.Duration]():
		return "duration"
	case reflect.TypeFor[api.Distance]():
		return "distance"
	case reflect.TypeFor[api.Bitrate]():
		return "bandwidth"
	case reflect.TypeFor[api.FileMode]():
		return "mode of a file"
	case reflect.TypeFor[api.Amount]():
		return "number or share"
	case reflect.TypeFor[api.Percent]():
		return "share"
	case ReplicasType:
		return "whole number or {min, max}"
	case PointType:
		return "[latitude, longitude] pair"
	case PolicyType, TLSType:
		return "name or mapping"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return TypeName(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "truth value"
	case reflect.Slice:
		return "list of " + TypeName(t.Elem()) + "s"
	case reflect.Map:
		return "mapping of names to " + TypeName(t.Elem()) + "s"
	}
	return "mapping"
}

// PolygonType is that of a list of points.
var PolygonType = reflect.TypeFor[[]api.Point]()
