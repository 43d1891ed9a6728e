package descriptor

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
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

// TestReferencePage keeps docs/descriptor.md current: go generate rewrites it.
func TestReferencePage(t *testing.T) {
	golden(t, "../../docs/descriptor.md", referencePage(t))
}

func referencePage(t *testing.T) string {
	t.Helper()
	hello, err := os.ReadFile("testdata/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	p("<!-- Made from the table of fields in api/schema by `go generate ./api/descriptor`. Do not edit. -->")
	p("# The descriptor\n")
	p("One file says what should run and what it must achieve. It is one YAML document (or JSON), at most 1 MiB.")
	p("`verge validate` and `verge apply` judge it alike; `verge schema` prints its JSON Schema for editors.\n")
	p("The smallest useful file:\n\n```yaml\n%s```\n", hello)
	p("## Fields\n")
	p("`*` stands for a name that you choose, `[]` for each entry of a list. **Enforced** fields do what they say.")
	p("Fields and values that are *not enforced yet* are refused with an error; nothing is silently ignored, and a key that is not in this table is an error.\n")
	p("| Field | Write | Default | Support | Meaning |")
	p("|---|---|---|---|---|")
	for _, v := range schema.FieldSpecs() {
		def := v.Default
		if v.Required {
			def = "*required*"
		}
		p("| `%s` | %s | %s | %s | %s |", v.Path, writes(v), def, v.Support, v.Note)
	}
	p("\n## Amounts\n")
	p("| Kind | Write | Most |")
	p("|---|---|---|")
	p("| amount of cpu | cores `2`, `0.5`, or thousandths of a core `500m` | %s |", api.MaxCPU)
	p("| amount of bytes | `128Mi`, `1.5Gi` (Ki Mi Gi Ti: powers of 1024), `200M` (k M G T: powers of 1000), or bytes `4096` | %s |", api.MaxBytes)
	p("| distance | `20km`, `1.5km`, `500m` | %s |", api.MaxDistance)
	p("| duration | `20ms`, `1.5s`, `2m`, `1h30m`; `0` | %s |", api.MaxDuration)
	p("\n## Variables\n")
	p("Verge sets these in the environment of an instance. In `command`, `args`, `env`, the `content` of files and the `command` of checks, `${NAME}` is replaced by the variable and `$$` by a dollar; `$NAME` stays as it is, for shells.\n")
	p("| Variable | Value |")
	p("|---|---|")
	p("| `PORT`, `PORT_<NAME>` | number of the first port, and of the port of that name |")
	p("| `VERGE_<SERVICE>_ADDR` | `host:port` of the first port of a service of the application |")
	p("| `VERGE_<SERVICE>_<PORT>_ADDR` | the same of the port of that name |")
	p("| `VERGE_LISTEN` | the address to listen on: `::` (all, of IPv6 and IPv4) where the instance has a network of its own, else `127.0.0.1` |")
	p("| `VERGE_OBJECTS` | where the objects of its namespace are: GET, HEAD and PUT of `$VERGE_OBJECTS/$VERGE_NAMESPACE/NAME` ([volumes.md](volumes.md#objects)) |")
	p("| `%s` | who and where the instance is |", strings.Join(slices.DeleteFunc(slices.Clone(instanceVariables), func(n string) bool { return n == "VERGE_LISTEN" || n == "VERGE_OBJECTS" }), "`, `"))
	p("| `%s` | of the machine, where the instance's files are, and where it may put temporary ones; not in a container, which has those of its image, nor in a function |", strings.Join(machineVariables, "`, `"))
	p("\nNames are written in capitals, with `_` for `-`: the service `my-store` is in `%s`. `env` can set the last three and none of the others. Its values can refer to all of them, and not to each other; `PATH: /opt/app/bin:${PATH}` works. Nothing else of a worker's environment reaches an instance. A reference to a variable that does not exist is an error.\n", api.EnvName("my-store"))
	p("## YAML\n")
	p("- A text may be written without quotes; numbers and truth values in the place of a text are taken as they are written (`012` stays `012`). A text that contains any of `[ ] { } ,` needs quotes inside brackets: `[serve, \"${PORT}\"]`.")
	p("- Whole numbers are decimal, without leading zeros.")
	p("- A key without a value is an error: leave the key out.")
	p("- Anchors and aliases work for whole values, as far as they expand to at most 1 MiB. Merge keys (`<<`) and tags (`!!str`) are refused.")
	p("- Nesting ends at 32 levels.\n")
	p("## Limits\n")
	p("%d services in an application, %d replicas and %d ports in a service, %d characters in a name.", api.MaxServices, api.MaxReplicas, api.MaxPorts, api.MaxNameLength)
	return b.String()
}

// writes is the second column.
func writes(v schema.FieldSpec) string {
	var now, later []string
	for _, value := range v.Values {
		if value.Support == schema.Enforced {
			now = append(now, "`"+value.Value+"`")
		} else {
			later = append(later, "`"+value.Value+"`")
		}
	}
	text := v.Type
	if len(now) > 0 {
		text = strings.Join(now, ", ")
	}
	if len(later) > 0 {
		text += "; *not enforced yet:* " + strings.Join(later, ", ")
	}
	if unit := map[string]func(int64) string{
		"distance":          func(i int64) string { return api.Distance(i).String() },
		"number":            func(i int64) string { return fmt.Sprint(i) },
		"mode of a file":    func(i int64) string { return api.FileMode(i).String() },
		"number of devices": func(i int64) string { return api.Units(i).String() },
		"bandwidth":         func(i int64) string { return api.Bitrate(i).String() },
		"duration":          func(i int64) string { return api.Duration(i).String() },
		"whole number":      func(i int64) string { return fmt.Sprint(i) },
		"amount of bytes":   func(i int64) string { return api.Bytes(i).String() },
		"amount of cpu":     func(i int64) string { return api.CPU(i).String() },
	}[v.Type]; unit != nil && v.Max > 0 {
		text += fmt.Sprintf(", %s to %s", unit(v.Min), unit(v.Max))
	}
	return text
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
