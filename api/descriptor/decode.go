package descriptor

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/shape"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/api/schema"
	"github.com/verge-edge/verge/internal/yamltree"
)

// decoder fills the structs from a tree. It goes on after an error, so that all
// of them are reported.
type decoder struct {
	*report
	// seen has every field, entry and item that the file gives, by path.
	seen map[string]placed
	// aliases counts the aliases around the current value; spent is the size of
	// what they expanded to so far.
	aliases, spent int
	// refused counts the fields around the current one that are not enforced yet:
	// what is in them is checked, and not refused again.
	refused int
}

// decode sets v from n. It leaves v alone where n does not fit.
func (d *decoder) decode(n *yamltree.Node, v reflect.Value, at where) {
	if d.full() || !d.spend(n, at) {
		return
	}
	if n.Kind == yamltree.Alias {
		d.aliases++
		d.decode(n.Target, v, at)
		d.aliases--
		return
	}
	if n.Tag != "" {
		d.fail(n.Pos, at.path, "tags ("+words.Quote(n.Tag)+") are not supported", "leave it out; quotes make a text")
		return
	}
	if n.Kind == yamltree.Null {
		d.fail(n.Pos, at.path, "has no value", remedyNull(v.Type(), at))
		return
	}
	switch t := v.Type(); {
	case t.Kind() == reflect.Pointer:
		inner := reflect.New(t.Elem())
		d.decode(n, inner.Elem(), at)
		v.Set(inner)
	case t == shape.ReplicasType:
		d.replicas(n, v, at)
	case t == shape.PointType:
		d.point(n, v, at)
	case t == shape.PolicyType && n.Kind == yamltree.Scalar:
		d.str(n, v.FieldByName("Name"), at)
	case t == shape.TLSType && n.Kind == yamltree.Scalar:
		d.str(n, v.FieldByName("Mode"), at)
	case shape.IsText(t):
		d.text(n, v, at)
	case t.Kind() == reflect.Struct:
		d.structure(n, v, at)
	case t.Kind() == reflect.Map:
		d.mapping(n, v, at)
	case t.Kind() == reflect.Slice:
		d.list(n, v, at)
	case t.Kind() == reflect.Int:
		d.integer(n, v, at)
	case t.Kind() == reflect.Float64:
		d.number(n, v, at)
	case t.Kind() == reflect.Bool:
		d.truth(n, v, at)
	default:
		d.str(n, v, at)
	}
}

// spend counts what aliases expand to and stops when it is more than a file may
// have: nine lines can stand for a billion values.
func (d *decoder) spend(n *yamltree.Node, at where) bool {
	if d.aliases == 0 {
		return true
	}
	before := d.spent
	d.spent += 1 + len(n.Text)
	if d.spent <= api.MaxDescriptorBytes {
		return true
	}
	if before <= api.MaxDescriptorBytes {
		d.fail(n.Pos, at.path, "the aliases of this file expand to more than 1 MiB", "write fewer of them")
	}
	return false
}

// remedyNull says what to write instead of nothing.
func remedyNull(t reflect.Type, at where) string {
	switch {
	case strings.HasSuffix(at.pattern, ".env.*"), strings.HasSuffix(at.pattern, "command[]"),
		strings.HasSuffix(at.pattern, "args[]"):
		return `write "" for an empty text, or leave it out`
	case t == reflect.TypeFor[*api.TCPCheck]():
		return "write {} for the first port, or leave the key out"
	}
	return "write a value, or leave the key out"
}

// mismatch reports a value of the wrong kind.
func (d *decoder) mismatch(n *yamltree.Node, t reflect.Type, at where) {
	found := map[yamltree.Kind]string{yamltree.Scalar: words.Quote(n.Text), yamltree.Mapping: "a mapping", yamltree.List: "a list"}[n.Kind]
	if n.Kind == yamltree.Scalar && ofEnv(at.path) {
		found = "a text" // it may be secret
	}
	remedy := ""
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String && n.Kind == yamltree.Scalar:
		items := strings.Fields(n.Text)
		for i, item := range items {
			if strings.ContainsAny(item, "[]{},:#&*!|>'\"%@`") {
				items[i] = strconv.Quote(item)
			}
		}
		if len(n.Text) <= 100 {
			remedy = "write [" + strings.Join(items, ", ") + "]"
		}
	case t.Kind() == reflect.Slice:
		remedy = "write a list: begin each entry with a dash"
	case t.Kind() == reflect.String && n.Kind != yamltree.Scalar:
		remedy = "put it in quotes if it is meant as a text"
	}
	article := "a "
	if name := shape.TypeName(t); name[0] == 'a' {
		article = "an "
	}
	d.fail(n.Pos, at.path, "expected "+article+shape.TypeName(t)+", found "+found, remedy)
}

func (d *decoder) structure(n *yamltree.Node, v reflect.Value, at where) {
	if n.Kind != yamltree.Mapping {
		d.mismatch(n, v.Type(), at)
		return
	}
	index := map[string]int{}
	for i := range v.NumField() {
		index[shape.KeyOf(v.Type().Field(i))] = i
	}
	d.pairs(n, at, at.field, func(key, value *yamltree.Node, to where) {
		i, known := index[key.Text]
		if !known {
			d.unknown(key, v.Type(), at)
			return
		}
		row := schema.SpecOf(to.pattern)
		switch row.Support {
		case schema.Refused:
			if d.refused == 0 {
				d.fail(key.Pos, to.path, "is not enforced yet", row.Instead)
			}
			d.refused++
			defer func() { d.refused-- }()
		case schema.Warned:
			d.warn(key.Pos, to.path, "is accepted and has no effect yet")
		}
		d.decode(value, v.Field(i), to)
	})
}

func (d *decoder) mapping(n *yamltree.Node, v reflect.Value, at where) {
	if n.Kind != yamltree.Mapping {
		d.mismatch(n, v.Type(), at)
		return
	}
	d.count(n, len(n.Keys), at)
	if len(n.Keys) == 0 {
		return // nil and empty are the same, and nil survives being written as JSON
	}
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, at, at.entry, func(key, value *yamltree.Node, to where) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.decode(value, elem, to)
		if elem.Kind() == reflect.Pointer && elem.IsNil() {
			return
		}
		v.SetMapIndex(reflect.ValueOf(key.Text), elem)
	})
}

// pairs visits the pairs of a mapping whose keys are texts and not duplicates.
func (d *decoder) pairs(n *yamltree.Node, at where, name func(string) where, visit func(key, value *yamltree.Node, to where)) {
	first := map[string]*yamltree.Node{}
	for i, key := range n.Keys {
		switch {
		case key.Kind == yamltree.Alias || key.Kind == yamltree.Mapping || key.Kind == yamltree.List || key.Tag != "" ||
			key.Kind == yamltree.Null && key.Text == "":
			d.fail(key.Pos, at.path, "a key must be a plain text", "write the name of a field")
			continue
		case key.Plain && key.Text == "<<":
			d.fail(key.Pos, at.path, "merge keys (<<) are not supported",
				"repeat the fields, or use an alias for the whole value")
			continue
		}
		to := name(key.Text)
		if other := first[key.Text]; other != nil {
			d.fail(key.Pos, to.path, fmt.Sprintf("is given twice, first in line %d", other.Line), "remove one of them")
			continue
		}
		first[key.Text] = key
		if !d.full() && d.spend(key, to) {
			d.seen[to.path] = placed{key.Pos, n.Values[i].Pos}
			visit(key, n.Values[i], to)
		}
	}
}

func (d *decoder) list(n *yamltree.Node, v reflect.Value, at where) {
	if n.Kind == yamltree.Scalar && schema.SpecOf(at.pattern).Single {
		n = &yamltree.Node{Kind: yamltree.List, Pos: n.Pos, Values: []*yamltree.Node{n}}
	}
	if v.Type() == shape.PolygonType && n.Kind == yamltree.Mapping {
		if n = d.geoJSON(n, at); n == nil {
			return
		}
	}
	if n.Kind != yamltree.List {
		d.mismatch(n, v.Type(), at)
		return
	}
	d.count(n, len(n.Values), at)
	if len(n.Values) == 0 {
		return // as in mapping
	}
	list := reflect.MakeSlice(v.Type(), 0, 0)
	for i, item := range n.Values {
		if d.full() || d.spent > api.MaxDescriptorBytes {
			break
		}
		to := at.item(i)
		d.seen[to.path] = placed{item.Pos, item.Pos}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.decode(item, elem, to)
		list = reflect.Append(list, elem)
	}
	v.Set(list)
}

// count checks how many entries a list or mapping has. That there are too few
// is for the validator, which can say what is missing.
func (d *decoder) count(n *yamltree.Node, entries int, at where) {
	if most := schema.SpecOf(at.pattern).Max; most > 0 && int64(entries) > most {
		d.fail(n.Pos, at.path, fmt.Sprintf("has %d entries, at most %d are allowed", entries, most), "")
	}
}

// replicas takes 3 or {min: 3, max: 3}.
func (d *decoder) replicas(n *yamltree.Node, v reflect.Value, at where) {
	switch n.Kind {
	case yamltree.Scalar:
		var count int
		d.integer(n, reflect.ValueOf(&count).Elem(), at)
		v.Set(reflect.ValueOf(api.Replicas{Min: count, Max: count}))
	case yamltree.Mapping:
		d.structure(n, v, at)
		if least := at.path + ".min"; d.seen[least] == (placed{}) && !d.spoiled(least) {
			d.fail(n.Pos, least, "is missing", "write {min, max}, or a number")
		}
		r := v.Interface().(api.Replicas)
		if _, given := d.seen[at.path+".max"]; !given {
			r.Max = r.Min
		}
		v.Set(reflect.ValueOf(r))
	default:
		d.mismatch(n, v.Type(), at)
	}
}

var (
	wholeNumber = pattern.Lazy(`^-?(0|[1-9][0-9]{0,17})$`)
	oddNumber   = pattern.Lazy(`^[-+]?[0-9][0-9_]*$`)
)

func (d *decoder) integer(n *yamltree.Node, v reflect.Value, at where) {
	if n.Kind != yamltree.Scalar {
		d.mismatch(n, v.Type(), at)
		return
	}
	i, err := strconv.ParseInt(n.Text, 10, 64)
	if !n.Plain || err != nil || !wholeNumber().MatchString(n.Text) {
		remedy := "write digits only"
		switch plain := strings.TrimLeft(strings.NewReplacer("_", "", "+", "").Replace(n.Text), "0"); {
		case !n.Plain && wholeNumber().MatchString(n.Text):
			remedy = "remove the quotes"
		case n.Plain && oddNumber().MatchString(n.Text) && wholeNumber().MatchString(plain):
			remedy = "write " + plain
		}
		d.fail(n.Pos, at.path, "expected a whole number, found "+words.Quote(n.Text), remedy)
		return
	}
	if d.inRange(n, i, at, func(i int64) string { return strconv.FormatInt(i, 10) }) {
		v.SetInt(i)
	}
}

// text decodes a unit from its source text, so that no YAML number rule can
// change it first.
func (d *decoder) text(n *yamltree.Node, v reflect.Value, at where) {
	if n.Kind != yamltree.Scalar {
		d.mismatch(n, v.Type(), at)
		return
	}
	err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.Text))
	var amount *api.ValueError
	switch {
	case errors.As(err, &amount):
		d.fail(n.Pos, at.path, amount.What, amount.Remedy)
	case err != nil:
		d.fail(n.Pos, at.path, err.Error(), "")
	default:
		unit := func(i int64) string {
			x := reflect.New(v.Type()).Elem()
			x.SetInt(i)
			return fmt.Sprint(x.Interface())
		}
		d.inRange(n, v.Int(), at, unit)
	}
}

// inRange checks the bounds of a field.
func (d *decoder) inRange(n *yamltree.Node, i int64, at where, write func(int64) string) bool {
	row := schema.SpecOf(at.pattern)
	if row.Min == 0 && row.Max == 0 || row.Min <= i && i <= row.Max {
		return true
	}
	message, remedy := "is more than "+write(row.Max)+", the most",
		fmt.Sprintf("write %s to %s", write(row.Min), write(row.Max))
	if i < row.Min {
		message = "is less than " + write(row.Min) + ", the least"
		if _, err := strconv.Atoi(n.Text); err == nil && i > 0 {
			remedy = "is the unit missing? Otherwise " + remedy
		}
	}
	d.fail(n.Pos, at.path, words.Quote(n.Text)+" "+message, remedy)
	return false
}

// str takes the text of any scalar as it is written: an env value 8080, 012 or
// true is that text.
func (d *decoder) str(n *yamltree.Node, v reflect.Value, at where) {
	if n.Kind != yamltree.Scalar {
		d.mismatch(n, v.Type(), at)
		return
	}
	if strings.ContainsRune(n.Text, 0) {
		d.fail(n.Pos, at.path, "contains a NUL character", "no program can receive one: remove it")
		return
	}
	row, s := schema.SpecOf(at.pattern), n.Text
	if list, isItem := strings.CutSuffix(at.pattern, "[]"); isItem && row.Path == "" {
		row = schema.SpecOf(list) // says what its items are
	}
	if row.Normal != nil {
		s = row.Normal(s)
	}
	if len(row.Values) > 0 && !d.oneOf(n, s, row, at) {
		return
	}
	v.SetString(s)
}

// oneOf checks a value against a closed set.
func (d *decoder) oneOf(n *yamltree.Node, s string, row schema.FieldSpec, at where) bool {
	var allowed []string
	for _, v := range row.Values {
		if v.Value == s && v.Support == schema.Refused {
			d.fail(n.Pos, at.path, words.Quote(s)+" is not enforced yet", v.Instead)
			return false
		}
		if v.Value == s {
			return true
		}
		if v.Support != schema.Refused {
			allowed = append(allowed, v.Value)
		}
	}
	remedy := "write " + words.Either(allowed)
	if near := nearest(s, allowed); near != "" {
		remedy = "did you mean " + near + "? There is " + words.Either(allowed)
		if len(allowed) == 1 {
			remedy = "did you mean " + near + "?"
		}
	}
	d.fail(n.Pos, at.path, words.Quote(n.Text)+" is not a value of "+row.Path[strings.LastIndexByte(row.Path, '.')+1:],
		remedy)
	return false
}
