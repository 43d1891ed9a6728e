package descriptor

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/shape"
	"github.com/verge-edge/verge/internal/yamltree"
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
	root := tree(source, r)
	if root == nil {
		return nil
	}
	if root.Kind != yamltree.Mapping {
		r.fail(root.Pos, "", "is not a descriptor: expected a mapping", remedyEmpty)
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

// readable checks what can be checked before parsing, so that no parser meets gigabytes or garbage.
func readable(source []byte, r *report) bool {
	switch err := yamltree.CheckText(source); {
	case len(source) > api.MaxDescriptorBytes:
		r.fail(yamltree.Pos{}, "",
			fmt.Sprintf("has more than %d bytes (1 MiB), the most of a descriptor", api.MaxDescriptorBytes),
			"is it the right file? Otherwise divide the application")
		return false
	case len(source) == 0:
		r.fail(yamltree.Pos{}, "", "is empty", remedyEmpty)
		return false
	case err != nil:
		r.fail(err.Pos, "", err.Message, err.Remedy)
		return false
	}
	return true
}

// maxDepth bounds the nesting of a descriptor; the deepest field is at 7.
const maxDepth = 32

const remedyEmpty = "write at least application: <name> and services: with one service"

// tree is that of the only document in source. Problems go to r; it is nil if there is none to go on
// with.
func tree(source []byte, r *report) (root *yamltree.Node) {
	for doc, err := range yamltree.Documents(source, maxDepth) {
		switch {
		case err != nil:
			if err.TooDeep {
				err.Remedy = "no field of a descriptor is that deep"
			}
			r.fail(err.Pos, "", err.Message, err.Remedy)
			return root
		case root != nil:
			r.fail(doc.Pos, "", fmt.Sprintf("a second document starts in line %d", doc.Line),
				"a descriptor is one document; put the other application into a file of its own, or remove the line ---")
			return root
		}
		root = doc.Root
	}
	if root == nil {
		r.fail(yamltree.Pos{Line: 1, Column: 1}, "", "there is no document in this file", remedyEmpty)
	}
	return root
}
