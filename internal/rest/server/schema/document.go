// Package schema describes operations by OpenAPI 3.1 from their types, and reads requests by
// that description.
//
// huma describes what an operation takes and judges values by that description. That the
// values are read here and not by huma.Register is for size: that function is generic, and
// the program would have a copy of it, 20 KB, for each type of input.
package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	// huma: OpenAPI 3.1 and validation from Go types, over the standard mux.
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Document is the description of an interface.
type Document struct {
	api *huma.OpenAPI
	// timeout to send the body of a request.
	timeout time.Duration
}

// New is a document without operations. timeout is how long the body of a request may take.
func New(version string, timeout time.Duration) *Document {
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Verge", Version: version,
				Description: "The HTTP interface of a root and of a cluster. Errors are problem documents (RFC 9457)."},
			Security: []map[string][]string{{"certificate": {}}, {"bearer": {}}},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"certificate": {Type: "mutualTLS", Description: "a client certificate of the root's authority"},
					"bearer":      {Type: "http", Scheme: "bearer", Description: "made with verge token create --api"},
				},
			},
		},
	}
	// Readers ignore fields they do not know (package wire, promise 1).
	config.AllowAdditionalPropertiesByDefault = true
	return &Document{api: humago.New(http.NewServeMux(), config).OpenAPI(), timeout: timeout}
}

// published are names that schemas have for clients that are made of the document, where the type
// has another name by now.
var published = map[string]string{"Counters": "Tally", "CountersSince": "TallySince"}

// schemaName names the schema of a type. Package place and those within it have views of
// their own of what others also call ClusterView and WorkerView.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if placing := reflect.TypeFor[place.Decision]().PkgPath(); t.PkgPath() == placing ||
		strings.HasPrefix(t.PkgPath(), placing+"/") {
		return "Place" + name
	}
	return cmp.Or(published[name], name)
}

// Add describes an operation, and returns how its requests are read.
func (d *Document) Add(op *rest.Operation) (*Input, error) {
	schemas := d.api.Components.Schemas
	o := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description,
		MaxBodyBytes: op.MaxBody, BodyReadTimeout: d.timeout,
		Extensions: map[string]any{"x-verge-needs": op.Needs.String()},
	}
	if op.Unsigned {
		o.Security = []map[string][]string{} // what is in the body is checked instead
	}
	in, err := describe(schemas, &o, op.In)
	if err != nil {
		return nil, err
	}
	o.Responses = map[string]*huma.Response{
		"default": d.problem(),
		strconv.Itoa(http.StatusOK): answers(http.StatusText(http.StatusOK), "application/json",
			schemas.Schema(op.Out, true, o.OperationID)),
	}
	d.api.AddOperation(&o)
	return in, nil
}

// AddWatch describes the stream of changes of kinds, which is no operation of the kind that
// one answer belongs to.
func (d *Document) AddWatch(op *rest.Operation, mediaType string, kinds []string) {
	enum := make([]any, len(kinds))
	for i, k := range kinds {
		enum[i] = k
	}
	d.api.AddOperation(&huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: "Be told how things are, and of every change",
		Description: "Server-sent events: begin, then put for everything there is, synced, and from then on put and " +
			"gone for every change. " +
			"A client that reconnects soon with the id of the last event (Last-Event-ID) continues from there; begin " +
			"says whether that was possible. " +
			"The data is JSON with kind, key and object, the same as in the lists. Shows what may be seen.",
		Parameters: []*huma.Param{
			{Name: "kinds", In: "query", Required: true, Explode: new(bool),
				Description: "what to watch, separated by commas",
				Schema: &huma.Schema{Type: huma.TypeArray,
					Items: &huma.Schema{Type: huma.TypeString, Enum: enum}}},
			{Name: "Last-Event-ID", In: "header", Description: "id of the last event that was received",
				Schema: &huma.Schema{Type: huma.TypeString}},
		},
		Responses: map[string]*huma.Response{
			"200":     answers("events", mediaType, &huma.Schema{Type: huma.TypeString}),
			"default": d.problem(),
		},
		Extensions: map[string]any{"x-verge-needs": op.Needs.String()},
	})
}

func (d *Document) problem() *huma.Response {
	return answers("a problem", rest.ProblemType,
		d.api.Components.Schemas.Schema(reflect.TypeFor[rest.ProblemBody](), true, ""))
}

func answers(what, contentType string, schema *huma.Schema) *huma.Response {
	return &huma.Response{Description: what, Content: map[string]*huma.MediaType{contentType: {Schema: schema}}}
}

// Text is the document in JSON.
func (d *Document) Text() ([]byte, error) {
	schemas := d.api.Components.Schemas
	// Package wire cannot name the type of the field decision of rpc.Explained: package
	// place, which owns it, stands above.
	if explained := schemas.Map()["Explained"]; explained != nil {
		explained.Properties["decision"] = schemas.Schema(reflect.TypeFor[place.Decision](), true, "PlaceDecision")
	}
	text, err := json.MarshalIndent(d.api, "", "  ")
	return append(text, '\n'), err
}

// invalid is the answer to a request in which something is wrong. Values
// are left out: one of them may be a token.
func invalid(status int, what string, wrong ...error) *wire.Problem {
	code, title, remedy := "invalid-request", "the request is not valid",
		"the operations and their parameters are at /openapi.json"
	switch status {
	case http.StatusRequestEntityTooLarge:
		code, title, remedy = "body-too-large", "the body is too large",
			"send less: a descriptor has at most 1 MiB, a join request 16 KiB"
	case http.StatusRequestTimeout:
		code, title, remedy = "body-too-slow", "the body came too slowly", "try again over a better connection"
	case http.StatusInternalServerError:
		code, title, remedy = "internal", "the request could not be read", "try again"
	}
	detail := []string{what}
	for _, err := range wrong {
		var d *huma.ErrorDetail
		if errors.As(err, &d) {
			detail = append(detail, d.Location+": "+d.Message)
		} else {
			detail = append(detail, err.Error())
		}
	}
	return &wire.Problem{Status: status, Code: code, Title: title, Remedy: remedy, Detail: strings.Join(detail, "; ")}
}
