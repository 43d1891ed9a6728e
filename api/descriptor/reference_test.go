package descriptor

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/schema"
)

// section is a part of the reference page: the fields that serve one task.
type section struct {
	heading, intro string
	// fields are those of a service with all within them, except what another section names.
	fields []string
}

var sections = []section{
	{"## Application", "", []string{"application", "namespace", "services"}},
	{"## Program", "[Containers](containers.md), [functions](functions.md) and [users of processes](processes.md) have pages of their own.",
		[]string{"runtime", "image", "pull", "pull_secret", "module", "command", "args", "user"}},
	{"## Environment and files", "`verge secret set` stores the values of [secrets](concepts.md#secrets).",
		[]string{"env", "env_secrets", "files"}},
	{"## Volumes", "[Volumes](volumes.md#volumes) explains what keeps data and how it moves.", []string{"volumes"}},
	{"## Security of containers", "[Concepts](concepts.md#containers) has the rights of a container without these fields.",
		[]string{"security"}},
	{"## Resources", "An instance is placed where its `resources` and `devices` are free; `limits` and `bandwidth` bound what it uses.",
		[]string{"resources", "devices", "limits", "bandwidth", "priority"}},
	{"## Replicas and scaling", "[Scaling](scaling.md) explains how Verge chooses a number in a range.",
		[]string{"replicas", "slo", "idle", "concurrency", "queue_max"}},
	{"## Placement", "[Concepts](concepts.md#where-instances-may-run) explains which clusters and workers qualify, and " +
		"which of them is chosen.",
		[]string{"architecture", "location", "affinity", "anti_affinity", "spread", "scheduler", "plugin", "convergence_time"}},
	{"## Distance and data", "[Near enough](concepts.md#near-enough) explains how a service stays close to others.",
		[]string{"latency", "rigidness", "data"}},
	{"## Ports", "", []string{"ports"}},
	{"## Ingress", "[Gateways](gateways.md) pass requests from outside to a port with an `ingress`.", []string{"ports[].ingress"}},
	{"## Routing", "[Which instance answers](concepts.md#which-instance-answers) compares the policies.",
		[]string{"policy", "timeout", "export", "service_ip"}},
	{"## Startup check", "[Checks](concepts.md#checks) explains how the three work together.", []string{"startup"}},
	{"## Readiness check", "", []string{"readiness"}},
	{"## Liveness check", "", []string{"liveness"}},
	{"## Restart and stop", "", []string{"restart", "stop"}},
	{"## Lost workers", "These fields decide about the instances of a worker that does not answer, and what happens when it is back.",
		[]string{"replace_after", "on_return"}},
	{"## Jobs", "[Jobs](concepts.md#jobs) run to completion.", []string{"job"}},
	{"## Schedules", "[Schedules](concepts.md#schedules) start a job again and again.", []string{"cron"}},
	{"## Rollouts", "[Rollouts](rollouts.md) explains how a new revision replaces the instances, and what stops it.", []string{"rollout"}},
}

func (s section) title() string { return strings.TrimPrefix(s.heading, "## ") }

// ofService is the path of a field within its service.
func ofService(path string) string { return strings.TrimPrefix(path, "services.*.") }

// sectionOf returns the heading of the section that names the most of the field's path.
func sectionOf(path string) string {
	path = ofService(path)
	var in, longest string
	for _, s := range sections {
		for _, f := range s.fields {
			rest, ok := strings.CutPrefix(path, f)
			if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') && len(f) > len(longest) {
				in, longest = s.heading, f
			}
		}
	}
	return in
}

// TestSectionsNameFields: no section of the reference page names what is no field.
func TestSectionsNameFields(t *testing.T) {
	for _, s := range sections {
		for _, f := range s.fields {
			if !slices.ContainsFunc(schema.FieldSpecs(), func(v schema.FieldSpec) bool { return ofService(v.Path) == f }) {
				t.Errorf("%s: %s is not a field", s.heading, f)
			}
		}
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
	p("`verge validate` and `verge apply` check it in the same way; `verge schema` prints its JSON Schema for editors.\n")
	p("The smallest useful file:\n\n```yaml\n%s```\n", hello)
	p("## Finding a field\n")
	p("| Section | Fields |\n|---|---|")
	for _, s := range sections {
		p("| [%s](#%s) | `%s` |", s.title(), strings.ReplaceAll(strings.ToLower(s.title()), " ", "-"), strings.Join(s.fields, "`, `"))
	}
	p("| Also | [Amounts](#amounts), [Variables](#variables), [YAML](#yaml), [Limits](#limits) |\n")
	p("In all sections but the first, fields are those of a service: `image` stands for `services.NAME.image`. `*` " +
		"stands for a name that you choose, `[]` for each entry of a list.\n")
	p("Every field takes effect. Values marked *not enforced yet* are refused with an error, and so is a key that this " +
		"page does not list.\n")
	fields := map[string][]schema.FieldSpec{}
	for _, v := range schema.FieldSpecs() {
		s := sectionOf(v.Path)
		if s == "" {
			t.Errorf("%s is in no section", v.Path)
		}
		fields[s] = append(fields[s], v)
	}
	for _, s := range sections {
		p("%s\n", s.heading)
		var below []string
		if s.intro != "" {
			p("%s\n", s.intro)
		}
		p("| Field | Write | Default | Meaning |\n|---|---|---|---|")
		for _, v := range fields[s.heading] {
			def, note := v.Default, v.Note
			if v.Required {
				def = "*required*"
			}
			if v.Support != schema.Enforced {
				note = fmt.Sprintf("*%s.* %s", v.Support, note)
			}
			write := writes(v)
			if len(v.Values) > 20 {
				below, write = append(below, fmt.Sprintf("Values of `%s`: %s.", ofService(v.Path), write)), "values below"
			}
			p("| `%s` | %s | %s | %s |", ofService(v.Path), write, def, note)
		}
		for _, values := range below {
			p("\n%s", values)
		}
		p("")
	}
	p("## Amounts\n")
	p("| Kind | Write | Most |")
	p("|---|---|---|")
	p("| amount of cpu | cores `2`, `0.5`, or thousandths of a core `500m` | %s |", api.MaxCPU)
	p("| amount of bytes | `128Mi`, `1.5Gi` (Ki Mi Gi Ti: powers of 1024), `200M` (k M G T: powers of 1000), or bytes "+
		"`4096` | %s |", api.MaxBytes)
	p("| distance | `20km`, `1.5km`, `500m` | %s |", api.MaxDistance)
	p("| duration | `20ms`, `1.5s`, `2m`, `1h30m`; `0` | %s |", api.MaxDuration)
	p("\n## Variables\n")
	p("Verge sets these in the environment of an instance. In `command`, `args`, `env`, the `content` of files and the " +
		"`command` of checks, `${NAME}` is replaced by the variable and `$$` by a dollar; `$NAME` stays as it is, for " +
		"shells.\n")
	p("| Variable | Value |")
	p("|---|---|")
	p("| `PORT`, `PORT_<NAME>` | number of the first port, and of the port of that name |")
	p("| `VERGE_<SERVICE>_ADDR` | `host:port` of the first port of a service of the application |")
	p("| `VERGE_<SERVICE>_<PORT>_ADDR` | the same of the port of that name |")
	p("| `VERGE_LISTEN` | the address to listen on: `::` (all, of IPv6 and IPv4) where the instance has a network of its " +
		"own, else `127.0.0.1` |")
	p("| `VERGE_OBJECTS` | where the objects of its namespace are: GET, HEAD and PUT of " +
		"`$VERGE_OBJECTS/$VERGE_NAMESPACE/NAME` ([volumes.md](volumes.md#objects)) |")
	others := slices.DeleteFunc(slices.Clone(instanceVariables), func(n string) bool { return n == "VERGE_LISTEN" || n == "VERGE_OBJECTS" })
	p("| `%s` | who and where the instance is |", strings.Join(others, "`, `"))
	p("| `%s` | of the machine, where the instance's files are, and where it may put temporary ones; not in a container, "+
		"which has those of its image, nor in a function |", strings.Join(machineVariables, "`, `"))
	p("\nNames are written in capitals, with `_` for `-`: the service `my-store` is in `%s`. `env` can set the last "+
		"three and none of the others. Its values can refer to all of them, and not to each other; `PATH: "+
		"/opt/app/bin:${PATH}` works. Nothing else of a worker's environment reaches an instance. A reference to a "+
		"variable that does not exist is an error.\n", api.EnvName("my-store"))
	p("## YAML\n")
	p("- A text may be written without quotes; numbers and truth values in the place of a text are taken as they are " +
		"written (`012` stays `012`). A text that contains any of `[ ] { } ,` needs quotes inside brackets: `[serve, " +
		"\"${PORT}\"]`.")
	p("- Whole numbers are decimal, without leading zeros.")
	p("- A key without a value is an error: leave the key out.")
	p("- Anchors and aliases work for whole values, as far as they expand to at most 1 MiB. Merge keys (`<<`) and tags " +
		"(`!!str`) are refused.")
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
