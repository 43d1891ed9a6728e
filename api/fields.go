package api

import (
	"encoding"
	"reflect"
	"strings"
)

// field is a field of the descriptor as the structs have it.
type field struct {
	pattern string // "services.*.ports[].name"
	typ     reflect.Type
}

// fields walks the structs of the descriptor in their order.
func fields() []field {
	var list []field
	var walk func(t reflect.Type, prefix string)
	walk = func(t reflect.Type, prefix string) {
		for i := range t.NumField() {
			f := t.Field(i)
			pattern := join(prefix, keyOf(f))
			list = append(list, field{pattern, f.Type})
			inner, suffix := element(f.Type)
			if isStruct(inner) {
				walk(inner, pattern+suffix)
			}
		}
	}
	walk(reflect.TypeFor[Application](), "")
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

// keyOf is the name of a field in the descriptor.
func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

var (
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	replicasType = reflect.TypeFor[Replicas]()
	pointType    = reflect.TypeFor[Point]()
	checkType    = reflect.TypeFor[Check]()
	policyType   = reflect.TypeFor[Policy]()
	tlsType      = reflect.TypeFor[IngressTLS]()
)

// isText says whether t is written as a text with a syntax of its own (a unit).
func isText(t reflect.Type) bool { return reflect.PointerTo(t).Implements(textType) }

func isStruct(t reflect.Type) bool { return t.Kind() == reflect.Struct && !isText(t) }

// typeName says in words what to write for a value of type t.
func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[CPU]():
		return "amount of cpu"
	case reflect.TypeFor[Units]():
		return "number of devices"
	case reflect.TypeFor[Bytes]():
		return "amount of bytes"
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Distance]():
		return "distance"
	case reflect.TypeFor[Bitrate]():
		return "bandwidth"
	case reflect.TypeFor[FileMode]():
		return "mode of a file"
	case reflect.TypeFor[Amount]():
		return "number or share"
	case reflect.TypeFor[Percent]():
		return "share"
	case replicasType:
		return "whole number or {min, max}"
	case pointType:
		return "[latitude, longitude] pair"
	case policyType, tlsType:
		return "name or mapping"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "truth value"
	case reflect.Slice:
		return "list of " + typeName(t.Elem()) + "s"
	case reflect.Map:
		return "mapping of names to " + typeName(t.Elem()) + "s"
	}
	return "mapping"
}
