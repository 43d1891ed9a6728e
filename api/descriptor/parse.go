package descriptor

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/shape"
)

// Parse reads a descriptor, YAML or JSON, fills in the defaults and checks it.
// Name is what the messages call it, usually the file's name. The error is
// Errors: all complaints of the file; the Application is then nil. Time and
// memory are bounded by MaxDescriptorBytes, whatever the input.
func Parse(name string, source []byte) (*api.Application, []Warning, error) {
	if name == "" {
		name = "descriptor"
	}
	r := newReport(name, source)
	app := parse(source, r)
	errs, warnings := r.finish()
	if len(errs) > 0 {
		return nil, warnings, errs
	}
	return app, warnings, nil
}

func parse(source []byte, r *report) *api.Application {
	source = bytes.TrimPrefix(source, []byte("\ufeff")) // a byte order mark is allowed
	r.source = source
	if !readable(source, r) {
		return nil
	}
	read := parseYAML
	if isJSON(source) {
		read = parseJSON
	}
	root := read(source, r)
	if root == nil {
		return nil
	}
	if root.kind != mappingKind {
		r.fail(root.pos, "", "is not a descriptor: expected a mapping", remedyEmpty)
		return nil
	}
	app := &api.Application{}
	d := &decoder{report: r, seen: map[string]placed{}}
	d.decode(root, reflect.ValueOf(app).Elem(), where{})
	app.Namespace = cmp.Or(app.Namespace, api.DefaultNamespace)
	for _, name := range app.ServiceNames() {
		at := where{}.field("services").entry(name).path
		fillDefaults(app.Services[name], func(field string) bool { _, ok := d.seen[shape.Join(at, field)]; return ok })
	}
	validate(app, d)
	return app
}

// readable checks what can be checked before parsing, so that no parser meets
// gigabytes or garbage.
func readable(source []byte, r *report) bool {
	switch {
	case len(source) > api.MaxDescriptorBytes:
		r.fail(pos{}, "", fmt.Sprintf("has more than %d bytes (1 MiB), the most of a descriptor", api.MaxDescriptorBytes),
			"is it the right file? Otherwise divide the application")
		return false
	case len(source) == 0:
		r.fail(pos{}, "", "is empty", remedyEmpty)
		return false
	case bytes.HasPrefix(source, []byte{0xff, 0xfe}), bytes.HasPrefix(source, []byte{0xfe, 0xff}):
		r.fail(pos{}, "", "is UTF-16 text", "save it as UTF-8")
		return false
	}
	at := pos{1, 1}
	for i := 0; i < len(source); {
		c, size := utf8.DecodeRune(source[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			r.fail(at, "", fmt.Sprintf("is not text: byte 0x%02x is not UTF-8", source[i]),
				"is it the right file? Save it as UTF-8")
			return false
		case c == '\n':
			at = pos{at.line + 1, 0}
		case c < ' ' && c != '\t' && c != '\r', c >= 0x7f && c < 0xa0 && c != 0x85:
			r.fail(at, "", fmt.Sprintf("is not text: it contains the control character 0x%02x", c), "is it the right file?")
			return false
		}
		at.column++
		i += size
	}
	return true
}
