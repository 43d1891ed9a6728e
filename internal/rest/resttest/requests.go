package resttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Request is a valid request for one operation.
type Request struct {
	Operation    string
	Method, Path string // with query
	Needs        string // as the description of the interface says it
	Body         []byte
	ContentType  string
}

// Open says whether the operation is for everybody.
func (r Request) Open() bool { return r.Needs == "open to everybody" }

// Changes says whether it takes more than a viewer of the namespace to ask for it.
func (r Request) Changes() bool {
	verb, ok := strings.CutPrefix(r.Needs, "the right to ")
	return ok && !slices.Contains([]string{"see", "logs", "top", "plan"}, verb)
}

type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	Minimum    *float64          `json:"minimum"`
	MinItems   int               `json:"minItems"`
}

type document struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Needs       string `json:"x-verge-needs"`
		Parameters  []struct {
			Name, In string
			Required bool
			Schema   schema
		}
		RequestBody *struct {
			Content map[string]struct{ Schema schema }
		}
		Responses map[string]struct{ Content map[string]any }
	}
	Components struct{ Schemas map[string]schema }
}

// Requests makes a valid request for each operation of an OpenAPI document. fill
// gives the values of parameters and of the fields of bodies, by name; "" leaves
// it to the schema. The body of an upload is fill("body"). Streams are left out.
func Requests(t testing.TB, openapi []byte, fill func(name string) string) []Request {
	t.Helper()
	var doc document
	if err := json.Unmarshal(openapi, &doc); err != nil {
		t.Fatal(err)
	}
	var out []Request
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if op.Responses["200"].Content["text/event-stream"] != nil {
				continue // it has no end
			}
			r := Request{Operation: op.OperationID, Method: strings.ToUpper(method), Needs: op.Needs}
			at, query := path, url.Values{}
			for _, p := range op.Parameters {
				value := fill(p.Name)
				switch {
				case p.In == "path":
					if value == "" {
						t.Fatalf("%s: nothing to fill {%s} of %s with", r.Operation, p.Name, path)
					}
					at = strings.ReplaceAll(at, "{"+p.Name+"}", url.PathEscape(value))
				case p.In == "query" && p.Required:
					query.Set(p.Name, fmt.Sprint(doc.value(p.Schema, p.Name, fill)))
				case p.In == "query" && value != "":
					query.Set(p.Name, value)
				}
			}
			r.Path = at
			if len(query) > 0 {
				r.Path += "?" + query.Encode()
			}
			if op.RequestBody != nil {
				for kind, content := range op.RequestBody.Content {
					r.ContentType, r.Body = kind, []byte(fill("body"))
					if kind == "application/json" {
						r.Body, _ = json.Marshal(doc.value(content.Schema, "", fill))
					}
				}
			}
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Request) int { return strings.Compare(a.Operation, b.Operation) })
	return out
}

// value is one that a schema accepts.
func (d document) value(s schema, name string, fill func(string) string) any {
	if s.Ref != "" {
		s = d.Components.Schemas[s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]]
	}
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	kind := fmt.Sprint(s.Type)
	has := func(want string) bool { return strings.Contains(kind, want) }
	switch {
	case has("object"):
		out := map[string]any{}
		for field, of := range s.Properties {
			if slices.Contains(s.Required, field) || fill(field) != "" {
				out[field] = d.value(of, field, fill)
			}
		}
		return out
	case has("array"):
		out := []any{}
		for range s.MinItems {
			out = append(out, d.value(*s.Items, name, fill))
		}
		return out
	case has("integer"), has("number"):
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 0
	case has("boolean"):
		return false
	}
	if v := fill(name); v != "" {
		return v
	}
	return "eA==" // also base64
}

// Do sends a request with a bearer token ("": none) and returns the answer.
func (r Request) Do(t testing.TB, client *http.Client, server, token string) (status int, body string) {
	t.Helper()
	status, body, err := r.Try(client, server, token)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.Path, err)
	}
	return status, body
}

// Try is Do for requests that may get no answer, such as one that is cut off.
func (r Request) Try(client *http.Client, server, token string) (status int, body string, err error) {
	req, err := http.NewRequest(r.Method, server+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return 0, "", err
	}
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	return resp.StatusCode, string(data), err
}
