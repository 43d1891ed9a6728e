package descriptor

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	// A complete validator of 2020-12, to check the schema with other eyes than
	// those that wrote it. Used by tests only.
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/verge-edge/verge/api/schema"
)

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	text, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schema.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schema.SchemaID) // checks it against the 2020-12 meta-schema
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is what an editor makes of a YAML file.
func asJSON(t testing.TB, source []byte) any {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(source, &doc); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestSchemaAcceptsWhatParseAccepts(t *testing.T) {
	s := compiled(t)
	files := samples(t, "accept/*")
	files["hello"] = samples(t, "hello.yaml")["testdata/hello.yaml"]
	for file, source := range files {
		if filepath.Ext(file) == ".json" { // the emoji is a surrogate pair, which YAML does not know
			source = bytes.ReplaceAll(source, []byte(`\ud83d\ude00`), []byte("x"))
		}
		if err := s.Validate(asJSON(t, source)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		app, _, err := Parse(file, source)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(app)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(asJSON(t, text)); err != nil {
			t.Errorf("%s, with defaults: %v", file, err)
		}
	}
}

// Each line is one mistake within a service; both Parse and the schema refuse it.
func TestSchemaRefusesWhatParseRefuses(t *testing.T) {
	s := compiled(t)
	both := func(source string) {
		t.Helper()
		if _, _, err := Parse("f", []byte(source)); err == nil {
			t.Errorf("Parse accepts\n%s", source)
		}
		if s.Validate(asJSON(t, []byte(source))) == nil {
			t.Errorf("the schema accepts\n%s", source)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(`
polcy: round-robin
Policy: round-robin
image: -x
resources: {mem: 1Gi}
limits: {disk: 1Gi}
replicas: {min: 1, most: 2}
ports: [{name: http, target: 80}]
ports: [{name: http, ingress: {host: a.b, path: /}}]
readiness: {tcp: {host: a}}
readiness: {http: {path: /, method: POST}}
readiness: {udp: {}}
restart: {max: 3}
stop: {after: 3s}
affinity: {zone: [a]}
runtime: vm
scheduler: best
policy: p3c
on_return: best
spread: hard
restart: {policy: Always}
stop: {signal: STOP}
stop: {grace: 5}
ports: [{protocol: sctp}]
resources: {cpu: 2 cores}
resources: {cpu: -1}
resources: {cpu: 5000}
resources: {memory: 12Q}
resources: {memory: 128}
resources: {memory: 1.5}
replace_after: 20
replace_after: -1s
replicas: -1
replicas: 10001
replicas: "3"
replicas: 1.5
replicas: {}
restart: {max_restarts: 1001}
readiness: {tcp: {}, failures: 0}
readiness: {interval: 1s}
readiness: {http: {path: /}, tcp: {}}
readiness: {http: {path: healthz}}
readiness: {http: {}}
ports: [{name: HTTP}]
ports: [{name: a, ingress: {}}]
ports: [{name: a, ingress: {host: "http://a.b"}}]
ports: {http: 80}
env: {"A=B": x}
env: {A: [x]}
env: {A: null}
env: [A=b]
args: x
affinity: {cluster: [Edge]}
affinity: {cluster: edge}
resources: null
virtualization: container
bandwidth: {in: 10}
latency: [{max: 20ms}]
resources: {vgpus: -1}
resources: {vgpus: [1]}
resources: {vtpus: 0}
devices: [camera]
devices: [{count: 1}]
devices: [{type: camera, count: 0}]
devices: [{type: camera, model: {}}]
rigidness: 2
env_secrets: {A: Not_A_Name}
env_secrets: {"A=B": a}
files: {a: {}}
files: {a: {content: x, secret: y}}
files: {a: {content: x, mode: rw}}
files: [a]
volumes: [{path: a}]
volumes: [{name: b}]
volumes: [{path: a, name: b, tmpfs: 1Mi}]
volumes: [{path: a, host: srv}]
volumes: [{path: a, host: /srv, read_only: "true"}]
startup: {exec: {}}
liveness: {tcp: {}, exec: {command: [x]}}
readiness: {exec: {command: []}}
restart: {delay: 5}
architecture: vax
architecture: [amd64, vax]
location: {latitude: 48}
location: {latitude: 91, longitude: 0, radius: 1km}
location: {latitude: "48", longitude: 0, radius: 1km}
location: {latitude: 48, longitude: 0, radius: 20}
affinity: {polygon: [[1, 2], [3, 4]]}
affinity: {polygon: [[1, 2], [3, 4], [5]]}
affinity: {polygon: [[1, 2], [3, 4], [5, 181]]}
affinity: {labels: {-a: b}}
affinity: {labels: {a: [b]}}
affinity: {service: [web]}
anti_affinity: {service: [Web]}
anti_affinity: {polygon: []}
`), "\n") {
		both("application: x\nservices:\n  web:\n    command: [x]\n    " + line + "\n")
	}
	for _, source := range []string{
		"services: {web: {command: [x]}}",
		"application: x",
		"application: x\nservices: {}",
		"application: X\nservices: {web: {command: [x]}}",
		"application: x\nservices: {Web: {command: [x]}}",
		"application: x\nservices: {web: {command: []}}",
		"application: x\nservices: {web: {command: [x]}}\nversion: 3",
		"[]",
	} {
		both(source)
	}
}

// An editor shows the descriptions; none is missing.
func TestSchemaDescribesEverything(t *testing.T) {
	text, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(string(text), `"description":`), len(schema.FieldSpecs()); got != want {
		t.Errorf("%d descriptions for %d fields", got, want)
	}
}
