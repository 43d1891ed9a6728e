package descriptor

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/verge-edge/verge/api"
)

// FuzzParse: no panic; a refusal is Errors, each with a message and a place in
// the file; what is accepted survives being written as JSON and is accepted by
// the schema.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"hello.yaml", "accept/*", "reject/*"} {
		for _, source := range samples(f, pattern) {
			f.Add(source)
		}
	}
	schema := compiled(f)
	f.Fuzz(func(t *testing.T, source []byte) {
		app, warnings, err := Parse("f", source)
		for _, w := range warnings {
			if w.Message == "" || w.String() == "" {
				t.Errorf("warning without a message: %+v", w)
			}
		}
		if err != nil {
			var errs Errors
			if !errors.As(err, &errs) || len(errs) == 0 || app != nil {
				t.Fatalf("%T: %v, %v", err, err, app)
			}
			for _, e := range errs {
				if e.Message == "" || e.Line < 0 || e.Column < 0 || !utf8.ValidString(e.Error()) {
					t.Errorf("%+v", e)
				}
			}
			return
		}
		sameAsJSON(t, app)
		for _, name := range app.ServiceNames() {
			s := app.Services[name]
			if s.Runtime == "" || (len(s.Command) == 0 && s.Module == "") || s.Resources.CPU <= 0 || s.Limits.Memory < s.Resources.Memory ||
				s.Restart.MaxRestarts == nil || s.ReplaceAfter == nil || s.Replicas.Min > s.Replicas.Max {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if err := schema.Validate(jsonOf(t, app)); err != nil {
			t.Errorf("the schema refuses it: %v", err)
		}
	})
}

func jsonOf(t *testing.T, app *api.Application) any {
	t.Helper()
	text, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}
