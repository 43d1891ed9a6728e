package server_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
)

var update = flag.Bool("update", false, "write testdata/openapi.json")

// The description of the interface only grows: every operation, parameter and field that was
// published stays, with the same type and the same right to it. Clients of the version before
// depend on them.
func TestOpenAPIOnlyGrows(t *testing.T) {
	_, _, admin := resttest.Serve(t, &resttest.Fake{}, nil)
	data := resttest.OpenAPI(t, admin)
	path := filepath.Join("testdata", "openapi.json")
	var now, before any
	if err := json.Unmarshal(data, &now); err != nil {
		t.Fatal(err)
	}
	if *update {
		out, err := json.MarshalIndent(shape(now), "", " ")
		if err == nil {
			err = os.WriteFile(path, append(out, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(golden, &before); err != nil {
		t.Fatal(err)
	}
	for _, lost := range missing("", before, shape(now)) {
		t.Errorf("%s\nIf that is meant: go test ./internal/rest/server -run OnlyGrows -update", lost)
	}
}

func TestOpenAPIOnlyGrowsFindsLosses(t *testing.T) {
	was := map[string]any{"paths": map[string]any{"/a": map[string]any{"get": "x"}}, "required": []any{"a"}}
	for name, now := range map[string]map[string]any{
		"a path":  {"paths": map[string]any{}, "required": []any{"a"}},
		"a type":  {"paths": map[string]any{"/a": map[string]any{"get": "y"}}, "required": []any{"a"}},
		"a field": {"paths": map[string]any{"/a": map[string]any{"get": "x"}}, "required": []any{}},
	} {
		if len(missing("", was, now)) != 1 {
			t.Errorf("%s: %v", name, missing("", was, now))
		}
	}
	was["more"] = 1
	if lost := missing("", was, was); len(lost) > 0 {
		t.Error(lost)
	}
}

// shape is a description without its prose, which may change.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			_, prose := e.(string)
			if prose && slices.Contains([]string{"description", "summary", "title", "version"}, k) || k == "examples" {
				continue
			}
			out[k] = shape(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = shape(e)
		}
		return out
	}
	return v
}

// missing are the parts of was that now lacks. Of lists only the elements count.
func missing(at string, was, now any) (out []string) {
	switch was := was.(type) {
	case map[string]any:
		has, ok := now.(map[string]any)
		if !ok {
			return []string{at + " is gone"}
		}
		for k, e := range was {
			if _, ok := has[k]; !ok {
				out = append(out, at+"/"+k+" is gone")
				continue
			}
			out = append(out, missing(at+"/"+k, e, has[k])...)
		}
	case []any:
		has, _ := now.([]any)
		for _, e := range was {
			if !slices.ContainsFunc(has, func(n any) bool { return len(missing("", e, n)) == 0 }) {
				out = append(out, fmt.Sprintf("%s has no %v", at, e))
			}
		}
	default:
		if !reflect.DeepEqual(was, now) {
			out = append(out, fmt.Sprintf("%s is %v, was %v", at, now, was))
		}
	}
	return out
}
