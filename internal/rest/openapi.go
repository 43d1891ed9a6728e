package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"

	// huma: OpenAPI 3.1 and validation from Go types, over the standard mux.
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// encoded is a response body that transform has already encoded.
type encoded []byte

func (s *Server) newAPI() huma.API {
	format := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			b, ok := v.(encoded)
			if !ok {
				return errors.New("a body that was not encoded")
			}
			_, err := w.Write(b)
			return err
		},
		Unmarshal: json.Unmarshal,
	}
	config := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{Title: "Verge", Version: s.version,
				Description: "The HTTP interface of a root and of a cluster. Errors are problem documents (RFC 9457)."},
			Security: []map[string][]string{{"certificate": {}}, {"bearer": {}}},
			Components: &huma.Components{SecuritySchemes: map[string]*huma.SecurityScheme{
				"certificate": {Type: "mutualTLS", Description: "a client certificate of the root's authority"},
				"bearer":      {Type: "http", Scheme: "bearer", Description: "made with verge token create --api"},
			}},
		},
		// "json" is every media type that ends in +json.
		Formats:      map[string]huma.Format{"application/json": format, "json": format},
		Transformers: []huma.Transformer{s.encode},
	}
	// Readers ignore fields they do not know (package wire, promise 1).
	config.AllowAdditionalPropertiesByDefault = true
	return humago.New(s.mux, config)
}

// encode encodes a response before its status is sent, so that a value that
// cannot be encoded becomes a problem and not half an answer.
func (s *Server) encode(ctx huma.Context, _ string, v any) (any, error) {
	if m, ok := v.(*huma.ErrorModel); ok {
		v = fromModel(m)
	}
	data, err := json.Marshal(v)
	if err == nil {
		return encoded(append(data, '\n')), nil
	}
	s.log.Error("an answer cannot be encoded", "path", ctx.URL().Path, "err", err)
	_, w := humago.Unwrap(ctx)
	if rw, ok := w.(*responseWriter); ok {
		rw.force(http.StatusInternalServerError)
	}
	ctx.SetHeader("Content-Type", problemType)
	data, err = json.Marshal(newProblemBody(wire.Problemf(http.StatusInternalServerError, "internal",
		"this is a bug: the log of this role has the details", "the answer cannot be encoded", "%v", err)))
	return encoded(append(data, '\n')), err
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
	problem := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problemBody](), true, "Problem")
	o.Responses = map[string]*huma.Response{"default": {
		Description: "a problem",
		Content:     map[string]*huma.MediaType{problemType: {Schema: problem}},
	}}
	// Said here and not found by huma, so that all operations have one type of answers:
	// it has a copy of its code, 20 KB of the program, for each pair of types.
	answer := reflect.TypeFor[body[O]]()
	o.Responses[strconv.Itoa(http.StatusOK)] = &huma.Response{
		Description: http.StatusText(http.StatusOK),
		Content: map[string]*huma.MediaType{"application/json": {
			Schema: huma.SchemaFromField(api.OpenAPI().Components.Schemas, answer.Field(0), answer.Name()+answer.Field(0).Name),
		}},
	}
	o.BodyReadTimeout = s.patience.Body
	n, _ := o.Metadata[needKey].(need)
	n.id = o.OperationID
	recorded := n.recorded(o.Method)
	s.declare(o.Method+" "+o.Path, n, reflect.TypeFor[I]())
	huma.Register(api, o, func(ctx context.Context, in *I) (*body[any], error) {
		var out O
		q := asked(in)
		err := s.permit(ctx, n, q)
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
		if err == nil {
			out, err = kept(ctx, s, n, out)
		}
		if ended := ended(ctx); ended != nil && (err != nil || o.Method == http.MethodGet) {
			err = ended
		}
		if err != nil {
			b := asProblem(err)
			if b.Status >= http.StatusInternalServerError && ctx.Err() == nil {
				s.log.Warn("a request failed", "operation", o.OperationID, "err", err)
			}
			return nil, b
		}
		return &body[any]{Body: out}, nil
	})
}

// kept is of an answer what who asks may see.
func kept[O any](ctx context.Context, s *Server, n need, out O) (O, error) {
	who := access.From(ctx)
	if n.keep == nil || who.Admin {
		return out, nil
	}
	var none O
	v, err := n.keep(s, who, out)
	if err != nil {
		return none, err
	}
	part, ok := v.(O)
	if !ok {
		return none, fmt.Errorf("a filter made %T of %T", v, out)
	}
	return part, nil
}

func list[T any](v []T, err error) (items[T], error) {
	if v == nil {
		v = []T{} // [] and not null in JSON
	}
	return items[T]{Items: v}, err
}
