package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"

	// huma: OpenAPI 3.1 and validation from Go types, over the standard mux.
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

func (s *Server) newAPI() huma.API {
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Verge", Version: s.version,
				Description: "The HTTP interface of a root and of a cluster. Errors are problem documents (RFC 9457)."},
			Security: []map[string][]string{{"certificate": {}}, {"bearer": {}}},
			Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName), SecuritySchemes: map[string]*huma.SecurityScheme{
				"certificate": {Type: "mutualTLS", Description: "a client certificate of the root's authority"},
				"bearer":      {Type: "http", Scheme: "bearer", Description: "made with verge token create --api"},
			}},
		},
	}
	// Readers ignore fields they do not know (package wire, promise 1).
	config.AllowAdditionalPropertiesByDefault = true
	return humago.New(s.mux, config)
}

// schemaName names the schema of a type. Package place has views of its own of what
// package wire also calls ClusterView and WorkerView.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.PkgPath() == reflect.TypeFor[place.Decision]().PkgPath() {
		return "Place" + name
	}
	return name
}

// describeDecisions gives the field decision of wire.Explained its type. Package wire
// cannot name the type: package place, which owns it, stands above.
func describeDecisions(schemas huma.Registry) {
	if explained := schemas.Map()["Explained"]; explained != nil {
		explained.Properties["decision"] = schemas.Schema(reflect.TypeFor[place.Decision](), true, "PlaceDecision")
	}
}

// answer writes v as JSON. It is encoded before its status is sent, so that a
// value that cannot be encoded becomes a problem and not half an answer.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		s.log.Error("an answer cannot be encoded", "path", r.URL.Path, "err", err)
		writeProblem(w, wire.Problemf(http.StatusInternalServerError, "internal",
			"this is a bug: the log of this role has the details", "the answer cannot be encoded", "%v", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that is gone cannot be told.
	_, _ = w.Write(append(data, '\n'))
}

// op describes an operation and what it needs of who asks (see need).
func op(id, method, path, summary string, n need) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, MaxBodyBytes: maxApplyBytes,
		Metadata: map[string]any{needKey: n}, Extensions: map[string]any{"x-verge-needs": n.String()},
	}
}

// register adds an operation whose errors are problems, and which is refused to
// those who may not use it.
func register[I, O any](s *Server, api huma.API, o huma.Operation, f func(context.Context, *I) (O, error)) {
	// All but these lines is the same code for all types.
	s.serve(api, o, reflect.TypeFor[I](), reflect.TypeFor[O](), func(ctx context.Context, in any) (any, error) {
		i, ok := in.(*I)
		if !ok {
			return nil, fmt.Errorf("operation %s takes a %T, not a %T", o.OperationID, i, in)
		}
		return f(ctx, i)
	})
}

// serve adds an operation that takes a pointer to takes, and returns gives.
func (s *Server) serve(api huma.API, o huma.Operation, takes, gives reflect.Type, f func(context.Context, any) (any, error)) {
	schemas := api.OpenAPI().Components.Schemas
	o.BodyReadTimeout = s.patience.Body
	in, err := describe(schemas, &o, takes)
	if err != nil {
		s.wrong = append(s.wrong, err)
		return
	}
	o.Responses = map[string]*huma.Response{
		"default":                   answers("a problem", problemType, schemas.Schema(reflect.TypeFor[problemBody](), true, "")),
		strconv.Itoa(http.StatusOK): answers(http.StatusText(http.StatusOK), "application/json", schemas.Schema(gives, true, o.OperationID)),
	}
	api.OpenAPI().AddOperation(&o)
	n, _ := o.Metadata[needKey].(need)
	n.id = o.OperationID
	s.declare(o.Method+" "+o.Path, n, takes)
	recorded := n.recorded(o.Method)
	s.mux.HandleFunc(o.Method+" "+o.Path, func(w http.ResponseWriter, r *http.Request) {
		asks, problem := in.read(w, r)
		if problem != nil {
			problem.write(w)
			return
		}
		out, err := s.perform(r.Context(), n, recorded, asks, f)
		if ended := ended(r.Context()); ended != nil && (err != nil || o.Method == http.MethodGet) {
			err = ended
		}
		if err != nil {
			b := asProblem(err)
			if b.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
				s.log.Warn("a request failed", "operation", o.OperationID, "err", err)
			}
			b.write(w)
			return
		}
		s.answer(w, r, out)
	})
}

func answers(what, contentType string, schema *huma.Schema) *huma.Response {
	return &huma.Response{Description: what, Content: map[string]*huma.MediaType{contentType: {Schema: schema}}}
}

// perform does what is asked for if who asks may do that, and records it.
func (s *Server) perform(ctx context.Context, n need, recorded bool, in any, f func(context.Context, any) (any, error)) (out any, err error) {
	q := asked(in)
	err = s.permit(ctx, n, q)
	switch {
	case err != nil:
		err = s.record(ctx, n, q, nil, err)
	case !recorded:
		out, err = f(ctx, in)
	case n.verb == access.Exec:
		if err = s.begin(ctx, n, q); err == nil {
			out, err = f(ctx, in)
		}
	default:
		out, err = f(ctx, in)
		err = s.record(ctx, n, q, out, err)
	}
	if err != nil {
		return nil, err
	}
	return kept(ctx, s, n, out)
}

// kept is of an answer what who asks may see.
func kept(ctx context.Context, s *Server, n need, out any) (any, error) {
	who := access.From(ctx)
	if n.keep == nil || who.Admin {
		return out, nil
	}
	part, err := n.keep(s, who, out)
	if err != nil {
		return nil, err
	}
	if reflect.TypeOf(part) != reflect.TypeOf(out) {
		return nil, fmt.Errorf("a filter made %T of %T", part, out)
	}
	return part, nil
}

func list[T any](v []T, err error) (items[T], error) {
	if v == nil {
		v = []T{} // [] and not null in JSON
	}
	return items[T]{Items: v}, err
}
