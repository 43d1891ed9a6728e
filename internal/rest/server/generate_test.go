package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
)

// generators is the module that pins the generator of clients.
const generators = "../../../tools/openapi"

// TestGeneratorTakesTheDocument makes a Go client of the OpenAPI document as it is
// served, with a generator that knows nothing of Verge, and compiles it.
func TestGeneratorTakesTheDocument(t *testing.T) {
	dir := t.TempDir()
	document, client, overlay := filepath.Join(dir, "openapi.json"), filepath.Join(dir, "client.go"),
		filepath.Join(dir, "overlay.json")
	text, _ := openAPI(t)
	write(t, document, []byte(text))
	if out, err := generator(t, "mod", "download").CombinedOutput(); err != nil {
		if os.Getenv("VERGE_CI_NO_SKIP") != "" {
			t.Fatalf("the generator is not there: %v\n%s", err, out)
		}
		t.Skipf("SKIPPED: a client made from the OpenAPI document: the generator is not there: %v\n%s", err, out)
	}
	run(t, generator(t, "tool", "oapi-codegen", "-generate", "types,client", "-package", "client", "-o", client,
		document))
	stub, err := filepath.Abs(filepath.Join(generators, "client", "client.go"))
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{stub: client}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, replace)
	run(t, generator(t, "build", "-overlay", overlay, "./client"))

	made, err := os.ReadFile(client)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"type PlaceDecision struct", "type ProblemBody struct",
		"type InstanceViewState string"} {
		if !strings.Contains(string(made), want) {
			t.Errorf("the client has no %q", want)
		}
	}
}

// generator is a command of the go tool in the module of the generator.
func generator(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = generators
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// openAPI is the document as it is served: its text, and what it says.
func openAPI(t *testing.T) (string, map[string]any) {
	t.Helper()
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	_, text, _ := ask(t, admin, "GET", "/openapi.json", nil)
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	return text, doc
}

// enumerated are the names of fields that hold one of a fixed list of words.
var enumerated = []string{"state", "kind", "kinds", "phase", "outcome", "role"}

// growing are fields whose words every version adds to: a list would make generated clients refuse
// what is new.
var growing = []string{"/components/schemas/Event: kind"}

// TestOpenAPIListsTheWordsOfStates walks the document: every reference leads to a
// schema, every field has a type, and every state and kind lists its words.
func TestOpenAPIListsTheWordsOfStates(t *testing.T) {
	_, doc := openAPI(t)
	for _, wrong := range wrongSchemas(doc) {
		t.Error(wrong)
	}
	planted := map[string]any{
		"components": map[string]any{"schemas": map[string]any{"A": map[string]any{"properties": map[string]any{
			"state": map[string]any{"type": "string"}, "b": map[string]any{},
			"c":    map[string]any{"$ref": "#/components/schemas/C"},
			"good": map[string]any{"$ref": "#/components/schemas/A"},
		}}}},
		"paths": map[string]any{"/v1/a": map[string]any{"get": map[string]any{"parameters": []any{
			map[string]any{"name": "kind", "schema": map[string]any{"type": "string"}}}}}},
	}
	if got := wrongSchemas(planted); len(got) != 4 {
		t.Errorf("of 4 planted faults these were found: %q", got)
	}
}

func wrongSchemas(doc map[string]any) []string {
	var wrong []string
	schemas, _ := doc["components"].(map[string]any)["schemas"].(map[string]any)
	lists := func(schema map[string]any) bool {
		if items, ok := schema["items"].(map[string]any); ok {
			schema = items
		}
		return schema["enum"] != nil || schema["type"] != "string"
	}
	typed := func(schema map[string]any) bool {
		return slices.ContainsFunc([]string{"type", "$ref", "anyOf", "oneOf", "allOf"},
			func(k string) bool { return schema[k] != nil })
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case []any:
			for i, x := range v {
				walk(fmt.Sprintf("%s/%d", at, i), x)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && schemas[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
				wrong = append(wrong, at+": there is no "+ref)
			}
			if schema, ok := v["schema"].(map[string]any); ok && slices.Contains(enumerated, fmt.Sprint(v["name"])) &&
				!lists(schema) {
				wrong = append(wrong, at+": a plain string")
			}
			properties, _ := v["properties"].(map[string]any)
			for name, p := range properties {
				schema, _ := p.(map[string]any)
				if !typed(schema) {
					wrong = append(wrong, at+": "+name+" has no type")
				}
				if slices.Contains(enumerated, name) && !lists(schema) && !slices.Contains(growing, at+": "+name) {
					wrong = append(wrong, at+": "+name+" is a plain string")
				}
			}
			for k, x := range v {
				walk(at+"/"+k, x)
			}
		}
	}
	walk("", doc)
	slices.Sort(wrong)
	return wrong
}
