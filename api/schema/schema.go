package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/shape"
	"github.com/verge-edge/verge/api/pattern"
)

// SchemaID identifies the JSON Schema of the descriptor.
const SchemaID = "urn:verge-edge:verge:descriptor"

// JSON returns the JSON Schema (2020-12) of the descriptor, made from the
// structs and the table of fields. It accepts every descriptor that Parse accepts
// (read as YAML 1.2); relations between fields are left to Parse.
func JSON() ([]byte, error) {
	root := structSchema(reflect.TypeFor[api.Application](), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = SchemaID
	root["title"] = "Verge application descriptor"
	b, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("schema of the descriptor: %w", err)
	}
	return append(b, '\n'), nil
}

type schema = map[string]any

func structSchema(t reflect.Type, prefix string) schema {
	properties, required := schema{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		pattern := shape.Join(prefix, shape.KeyOf(f))
		row := SpecOf(pattern)
		s := valueSchema(f.Type, pattern, row)
		if row.Support == Refused {
			s["not"] = schema{}
		}
		s["description"] = describe(row)
		properties[shape.KeyOf(f)] = s
		if row.Required {
			required = append(required, shape.KeyOf(f))
		}
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	if one := OneOfThese[t]; one != nil {
		var of []schema
		for _, key := range one {
			of = append(of, schema{"required": []string{key}})
		}
		s["oneOf"] = of
	}
	return s
}

// OneOfThese has the structs of which exactly one of some fields is given.
var OneOfThese = map[reflect.Type][]string{
	shape.CheckType:                {"http", "tcp", "exec"},
	reflect.TypeFor[api.File]():    {"content", "secret"},
	reflect.TypeFor[api.Volume]():  {"name", "host", "tmpfs"},
	reflect.TypeFor[api.Ingress](): {"host", "port"},
	shape.TLSType:                  {"mode", "secret"},
}

// describe is the description of a field for an editor.
func describe(row FieldSpec) string {
	text := row.Note
	if row.Support != Enforced {
		text = fmt.Sprintf("%s (%s: %s)", strings.TrimSuffix(text, "."), row.Support, row.Instead)
	}
	if row.Default != "" {
		text += " Default: " + row.Default + "."
	}
	return text
}

func valueSchema(t reflect.Type, path string, row FieldSpec) schema {
	switch {
	case t.Kind() == reflect.Pointer:
		return valueSchema(t.Elem(), path, row)
	case t == shape.ReplicasType:
		return schema{"oneOf": []schema{wholeSchema(row), structSchema(t, path)}}
	case t == shape.PolicyType, t == shape.TLSType:
		return schema{"oneOf": []schema{textSchema(row), structSchema(t, path)}}
	case t == shape.PointType:
		axis := func(b int) schema {
			return schema{"type": "number", "minimum": api.PointBounds[b].Least, "maximum": api.PointBounds[b].Most}
		}
		return schema{"type": "array", "prefixItems": []schema{axis(0), axis(1)}, "minItems": 2, "maxItems": 2}
	case shape.IsText(t):
		return unitSchema(t, row)
	}
	switch t.Kind() {
	case reflect.Struct:
		return structSchema(t, path)
	case reflect.Map:
		s := schema{"type": "object", "additionalProperties": valueSchema(t.Elem(), path+".*",
			FieldSpec{Pattern: row.Pattern})}
		names := schema{"pattern": row.Keys}
		if row.Keys == pattern.Label || row.Keys == pattern.LabelKey {
			names["maxLength"] = api.MaxNameLength
		}
		s["propertyNames"] = names
		bound(s, "Properties", row)
		return s
	case reflect.Slice:
		item := valueSchema(t.Elem(), path+"[]",
			FieldSpec{Pattern: row.Pattern, Values: row.Values, spellings: row.spellings})
		s := schema{"type": "array", "items": item}
		bound(s, "Items", row)
		if row.Single {
			return schema{"anyOf": []schema{item, s}}
		}
		if t == shape.PolygonType {
			kinds := schema{"type": schema{"enum": []string{"Polygon", "Feature"}}}
			return schema{"anyOf": []schema{s, {"type": "object", "properties": kinds, "required": []string{"type"}}}}
		}
		return s
	case reflect.Int:
		return wholeSchema(row)
	case reflect.Float64:
		return schema{"type": "number", "minimum": row.Min, "maximum": row.Max}
	case reflect.Bool:
		return schema{"type": "boolean"}
	}
	return textSchema(row)
}

// bound writes the bounds of how many entries there are.
func bound(s schema, what string, row FieldSpec) {
	if row.Min > 0 {
		s["min"+what] = row.Min
	}
	if row.Max > 0 {
		s["max"+what] = row.Max
	}
}

func wholeSchema(row FieldSpec) schema {
	return schema{"type": "integer", "minimum": row.Min, "maximum": row.Max}
}

// textSchema: where any text will do, a number or truth value is taken as it is
// written.
func textSchema(row FieldSpec) schema {
	var enum []string
	for _, v := range row.Values {
		if v.Support != Refused {
			enum = append(enum, v.Value)
		}
	}
	switch {
	case len(row.spellings) > 0:
		return schema{"type": []string{"string", "number"}, "pattern": "^(" + anyCase(append(enum, row.spellings...)) + ")$"}
	case row.Normal != nil && len(enum) > 0: // stop.signal: any case, with or without SIG
		return schema{"type": "string", "pattern": "^([Ss][Ii][Gg])?(" + anyCase(enum) + ")$"}
	case len(enum) > 0:
		return schema{"type": "string", "enum": enum}
	case row.Pattern == pattern.Path, row.Pattern == pattern.HostDir, row.Pattern == pattern.IngressPath:
		return schema{"type": "string", "pattern": row.Pattern}
	case row.Pattern != "": // 5 and true are texts to Parse, and names
		s := schema{"type": []string{"string", "number", "boolean"}, "pattern": row.Pattern}
		if row.Pattern != pattern.Host && row.Pattern != pattern.File {
			s["maxLength"] = api.MaxNameLength
		}
		return s
	}
	return schema{"type": []string{"string", "number", "boolean"}}
}

// anyCase is a pattern for any of the words in any case.
func anyCase(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, c := range w {
			if upper, lower := strings.ToUpper(string(c)), strings.ToLower(string(c)); upper != lower {
				b.WriteString("[" + upper + lower + "]")
			} else {
				b.WriteRune(c)
			}
		}
	}
	return b.String()
}

const decimalPattern = `(0|[1-9][0-9]*)(\.[0-9]+)?`

// unitSchema: a unit is a text; amounts may be plain numbers too.
func unitSchema(t reflect.Type, row FieldSpec) schema {
	number := schema{"type": "number", "minimum": row.Min, "maximum": row.Max}
	var text string
	switch t {
	case reflect.TypeFor[api.CPU](), reflect.TypeFor[api.Units]():
		text = "^" + decimalPattern + "m?$"
		number["minimum"], number["maximum"] = float64(row.Min)/1000, float64(row.Max)/1000
	case reflect.TypeFor[api.Bytes]():
		text = "^" + decimalPattern + "([KMGT]i|[kKMGT])?$"
		number["type"] = "integer"
	case reflect.TypeFor[api.Distance]():
		return schema{"type": "string", "pattern": "^" + decimalPattern + "k?m$"}
	case reflect.TypeFor[api.Bitrate]():
		return schema{"type": "string", "pattern": "^" + decimalPattern + "[kMG]?bps$"}
	case reflect.TypeFor[api.Amount]():
		text = "^(0|[1-9][0-9]*)%?$"
		number = schema{"type": "integer", "minimum": 0, "maximum": api.MaxReplicas}
	case reflect.TypeFor[api.Percent]():
		return schema{"type": "string", "pattern": `^(0|[1-9][0-9]{0,2})(\.[0-9]{1,2})?%$`}
	case reflect.TypeFor[api.FileMode](): // some readers of YAML take 0600 for a number
		text = "^0?[0-7]{3}$"
		number = schema{"type": "integer", "minimum": 1, "maximum": 777}
	default:
		text = `^(0|((\.[0-9]+|[0-9]+(\.[0-9]*)?)(ns|us|µs|μs|ms|s|m|h))+)$`
		if row.Min > 0 {
			return schema{"type": "string", "pattern": text}
		}
		number = schema{"const": 0}
	}
	return schema{"anyOf": []schema{{"type": "string", "pattern": text}, number}}
}
