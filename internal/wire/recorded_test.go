package wire_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "record what this version sends and stores, as the one before the next")

// recordedFile has, by kind, what the version before wrote: each field that it knew is in
// it once. It is made anew when a version is released, and at no other time:
//
//	go test ./internal/wire -run TestRecorded -update
var recordedFile = filepath.Join("testdata", "recorded.json")

// TestRecordedIsRead reads what the version before has written, of every kind that goes
// between nodes or is stored. All that it said must still be there when it is written
// again: a field that was renamed, or is of another type, would be lost where the two
// versions work together, or after an upgrade.
func TestRecordedIsRead(t *testing.T) {
	if *update {
		recordSamples(t)
	}
	data, err := os.ReadFile(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]json.RawMessage
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	now := map[string]reflect.Type{}
	for _, kind := range kinds {
		now[kind.Name()] = kind
	}
	fields := 0
	for name, old := range recorded {
		kind := now[name]
		if kind == nil {
			t.Errorf("%s is gone, and the version before sends it: read it for one version more", name)
			continue
		}
		for what, written := range map[string]json.RawMessage{"what the version before wrote": old, "what a newer version may write": withUnknown(t, old)} {
			into := reflect.New(kind).Interface()
			if err := json.Unmarshal(written, into); err != nil {
				t.Errorf("%s: %s cannot be read: %v", name, what, err)
				continue
			}
			again, err := json.Marshal(into)
			if err != nil {
				t.Errorf("%s: %s: %v", name, what, err)
				continue
			}
			n, lost := missing(generic(t, old), generic(t, again), name)
			for _, path := range lost {
				t.Errorf("%s is lost of %s: whoever has the one version would not hear what the other says", path, what)
			}
			fields += n
		}
	}
	if len(recorded) < 100 || fields < 1000 {
		t.Errorf("%d kinds with %d values are not what was recorded", len(recorded), fields)
	}
}

// What is recorded is of this version's kinds, or of some of them: those that are new.
func TestRecordingIsComplete(t *testing.T) {
	var empty []string
	for _, kind := range kinds {
		data, err := json.Marshal(sample(t, kind))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		names := jsonFields(kind)
		got, ok := generic(t, data).(map[string]any)
		if !ok {
			continue // it is written as something else than an object
		}
		for _, name := range names {
			if _, there := got[name]; !there {
				empty = append(empty, kind.Name()+"."+name)
			}
		}
	}
	// A few have forms that no generic value has.
	if len(empty) > 10 {
		t.Errorf("no value is made of %v", empty)
	}
}

func recordSamples(t *testing.T) {
	t.Helper()
	out := map[string]any{}
	for _, kind := range kinds {
		out[kind.Name()] = sample(t, kind)
	}
	data, err := json.MarshalIndent(out, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(recordedFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordedFile, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sample is a value of a kind that has something in each of its fields.
func sample(t *testing.T, kind reflect.Type) any {
	t.Helper()
	v := reflect.New(kind).Elem()
	fill(v, nil)
	return v.Interface()
}

// fill puts something into v. A type within itself ends.
func fill(v reflect.Value, within []reflect.Type) {
	if slices.Contains(within, v.Type()) {
		return
	}
	within = append(slices.Clone(within), v.Type())
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		return
	case *json.RawMessage:
		*x = json.RawMessage(`{"x":1}`)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), within)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), within)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), within)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), within)
		}
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, nil)
		fill(elem, within)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, elem)
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf("a"))
		}
	}
	if text := known[v.Type().String()]; text != "" {
		_ = json.Unmarshal([]byte(text), v.Addr().Interface()) // what it made of it is looked at below
	}
	// Of what does not read what it wrote there is no such value: it has its zero.
	data, err := json.Marshal(v.Interface())
	if err == nil {
		err = json.Unmarshal(data, reflect.New(v.Type()).Interface())
	}
	if err != nil {
		v.SetZero()
	}
}

// known are values of types that have forms of their own.
var known = map[string]string{
	"netip.Addr": `"fd00::1"`, "netip.Prefix": `"10.0.0.0/8"`, "netip.AddrPort": `"10.0.0.1:80"`,
}

// jsonFields are the names of the fields of a struct, as they are written.
func jsonFields(kind reflect.Type) (names []string) {
	for i := range kind.NumField() {
		f := kind.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && !f.Anonymous && name != "-" {
			if name == "" {
				name = f.Name
			}
			names = append(names, name)
		}
	}
	return names
}

func generic(t *testing.T, data []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

// withUnknown adds a field that nobody knows to the object, as a newer version may.
func withUnknown(t *testing.T, data json.RawMessage) json.RawMessage {
	t.Helper()
	v := generic(t, data)
	if m, ok := v.(map[string]any); ok {
		m["of-a-newer-version"] = map[string]any{"x": []any{1, "y"}}
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// otherwise are fields that are written in another form than before, and what follows from
// it for an older version.
var otherwise = map[string]string{
	".vgpus": "a number of whole devices before, text since there are parts of one: an older worker refuses orders for devices",
	".vtpus": "the same",
}

// rewritten says whether a value is the same in another form.
func rewritten(path string, old, now any) bool {
	for suffix := range otherwise {
		if strings.HasSuffix(path, suffix) {
			return fmt.Sprint(old) == fmt.Sprint(now)
		}
	}
	return false
}

// missing are the values of old, by their path, that now does not have, of n in all.
func missing(old, now any, path string) (n int, lost []string) {
	switch o := old.(type) {
	case map[string]any:
		m, ok := now.(map[string]any)
		if !ok {
			return 1, []string{path}
		}
		for k, v := range o {
			c, l := missing(v, m[k], path+"."+k)
			n, lost = n+c, append(lost, l...)
		}
	case []any:
		m, ok := now.([]any)
		if !ok || len(m) != len(o) {
			return 1, []string{path}
		}
		for i := range o {
			c, l := missing(o[i], m[i], fmt.Sprintf("%s[%d]", path, i))
			n, lost = n+c, append(lost, l...)
		}
	default:
		if n = 1; !reflect.DeepEqual(old, now) && !rewritten(path, old, now) {
			lost = append(lost, path)
		}
	}
	return n, lost
}
