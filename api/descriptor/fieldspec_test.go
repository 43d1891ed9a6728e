package descriptor

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/shape"
	"github.com/verge-edge/verge/api/schema"
)

// The table has exactly the fields of the structs, in their order within each
// part, and says something about each.
func TestFieldSpecsCoverTheStructs(t *testing.T) {
	missing := map[string]bool{}
	for _, f := range shape.Fields() {
		missing[f.Pattern] = true
	}
	for _, v := range schema.FieldSpecs() {
		if !missing[v.Path] {
			t.Errorf("%s: is listed twice, or is not a field", v.Path)
		}
		delete(missing, v.Path)
		switch {
		case v.Note == "", v.Type == "":
			t.Errorf("%s: has no note or no type", v.Path)
		case v.Support != schema.Enforced && v.Support != schema.Refused && v.Support != schema.Warned:
			t.Errorf("%s: unknown support %q", v.Path, v.Support)
		case v.Support == schema.Refused && v.Instead == "":
			t.Errorf("%s: does not say what to write instead", v.Path)
		}
		for _, value := range v.Values {
			if value.Support == schema.Refused && value.Instead == "" {
				t.Errorf("%s: does not say what to write instead of %s", v.Path, value.Value)
			}
		}
		for _, p := range []string{v.Pattern, v.Keys} {
			if _, err := regexp.Compile(p); err != nil {
				t.Errorf("%s: %v", v.Path, err)
			}
		}
	}
	for path := range missing {
		t.Errorf("%s: no specification", path)
	}
}

// A refused field or value is refused by the parser, an enforced value accepted.
func TestFieldSpecsAreCarriedOut(t *testing.T) {
	try := func(path, value string) error {
		doc := nested(strings.TrimPrefix(path, "services.*."), value)
		doc["command"] = []string{"x"}
		if of, ok := map[string]string{"decay": api.PolicyProximity, "fallback": api.PolicyLocal}[path[strings.LastIndexByte(path, '.')+1:]]; ok {
			doc["policy"].(map[string]any)["name"] = of // nothing without it
		}
		if strings.HasPrefix(path, "services.*.ports[].ingress.tls") {
			doc["ports"].([]any)[0].(map[string]any)["ingress"].(map[string]any)["host"] = "a.b" // nothing without it
		}
		if value == "plugin" {
			doc["plugin"] = "x" // which one
		}
		if cron, ok := doc["cron"].(map[string]any); ok {
			cron["schedule"] = "0 2 * * *"
		}
		if path == "services.*.pull" || strings.HasPrefix(path, "services.*.security.") || value == api.Container {
			doc["runtime"], doc["image"] = api.Container, "x"
		}
		if value == api.Wasm {
			delete(doc, "command")
			doc["module"] = "x"
		}
		source, err := json.Marshal(map[string]any{"application": "x", "services": map[string]any{"web": doc}})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Parse("f", source)
		return err
	}
	for _, v := range schema.FieldSpecs() {
		if v.Support == schema.Refused {
			if err := try(v.Path, "1s"); err == nil || !strings.Contains(err.Error(), "not enforced yet: "+v.Instead) {
				t.Errorf("%s: %v", v.Path, err)
			}
		}
		for _, value := range v.Values {
			err := try(v.Path, value.Value)
			if value.Support == schema.Enforced && err != nil {
				t.Errorf("%s: %v", v.Path, err)
			}
			if value.Support == schema.Refused && (err == nil || !strings.Contains(err.Error(), "not enforced yet: "+value.Instead)) {
				t.Errorf("%s: %s: %v", v.Path, value.Value, err)
			}
		}
		if len(v.Values) > 0 {
			if err := try(v.Path, "nonsense"); err == nil || !strings.Contains(err.Error(), "is not a value of") {
				t.Errorf("%s: nonsense: %v", v.Path, err)
			}
		}
	}
}

// nested is a mapping with one value, at the place of a pattern.
func nested(pattern, value string) map[string]any {
	key, rest, more := strings.Cut(pattern, ".")
	var inner any = value
	if more {
		inner = nested(rest, value)
	}
	if list, isList := strings.CutSuffix(key, "[]"); isList {
		key, inner = list, []any{inner}
	}
	return map[string]any{key: inner}
}

// Defaults that the table states as values are those that Parse fills in.
func TestDefaultsAreAsStated(t *testing.T) {
	source := "application: x\nservices: {web: {command: [x], ports: [{}], readiness: {tcp: {}}, startup: {tcp: {}}, liveness: {tcp: {}}, files: {a: {content: b}}}, task: {command: [x], cron: {schedule: 0 2 * * *}}}"
	app, _, err := Parse("f", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(app)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, v := range schema.FieldSpecs() {
		if v.Default == "" || strings.Contains(v.Default, " ") || strings.HasPrefix(v.Default, "resources.") || v.Default == "min" || v.Default == "none" {
			continue // in words
		}
		at := doc
		for _, key := range strings.Split(v.Path, ".") {
			in := at.(map[string]any)
			_, services := in["web"]
			switch {
			case key == "*" && services && (strings.HasPrefix(v.Path, "services.*.job.") || strings.HasPrefix(v.Path, "services.*.cron.")):
				key = "task"
			case key == "*" && services:
				key = "web"
			case key == "*":
				for key = range in {
					break
				}
			}
			at = in[key]
		}
		if at == nil {
			at = false // what is not written
		}
		if got := fmt.Sprint(at); got != v.Default {
			t.Errorf("%s: default is %s, the table says %s", v.Path, got, v.Default)
		}
		checked++
	}
	if checked < 24 {
		t.Errorf("only %d defaults were checked", checked)
	}
}

// The variable of a service tells which service it is of, so no two services
// share one; the same holds for ports.
func TestEnvNamesDoNotCollide(t *testing.T) {
	for _, name := range []string{"a", "a-b", "a--b", "a1-2", "store-addr", "x_y", "A"} {
		variable := strings.TrimSuffix(strings.TrimPrefix(api.EnvName(name), "VERGE_"), "_ADDR")
		same := strings.ReplaceAll(strings.ToLower(variable), "_", "-") == name
		if same != labelRE().MatchString(name) {
			t.Errorf("%s: is a name: %v; is recovered from %s: %v", name, labelRE().MatchString(name), api.EnvName(name), same)
		}
	}
}

// The longest identifier of an instance must do as a key, a file and a subject.
func TestInstanceIDsAreShort(t *testing.T) {
	if n := len("..") + 2*api.MaxNameLength + len(fmt.Sprint(api.MaxReplicas)); n > 200 {
		t.Errorf("an instance id can have %d characters", n)
	}
}
