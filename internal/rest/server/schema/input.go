package schema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/queryparam"

	"github.com/verge-edge/verge/internal/wire"
)

// Input says how the request of an operation is read: a struct whose fields are tagged
// path or query, and a Body (JSON) or a RawBody (as it came) if it has one.
type Input struct {
	t         reflect.Type
	params    []param
	body, raw []int        // where Body and RawBody are; nil: there is none
	schema    *huma.Schema // of Body
	schemas   huma.Registry
	limit     int64         // a body has fewer bytes
	timeout   time.Duration // for a body
}

// param is a field that the path or the query has.
type param struct {
	field    []int
	in, name string
	schema   *huma.Schema
}

// describe adds to o what an operation takes that has inputs of type t.
func describe(schemas huma.Registry, o *huma.Operation, t reflect.Type) (*Input, error) {
	in := &Input{t: t, schemas: schemas, limit: o.MaxBodyBytes, timeout: o.BodyReadTimeout}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous { // its fields come, too
			continue
		}
		if f.Name == "RawBody" {
			in.raw = f.Index
			o.RequestBody = bodyOf(f.Tag.Get("contentType"), &huma.Schema{Type: "string", Format: "binary"})
			continue
		}
		schema := huma.SchemaFromField(schemas, f, t.Name()+f.Name)
		if f.Name == "Body" {
			schema.PrecomputeMessages()
			in.body, in.schema = f.Index, schema
			o.RequestBody = bodyOf("application/json", schema)
			continue
		}
		p := param{field: f.Index, in: "path", name: f.Tag.Get("path"), schema: schema}
		var explode *bool
		if p.name == "" {
			p.in, p.name, explode = "query", f.Tag.Get("query"), new(bool)
		}
		if p.name == "" || !settable(f.Type) {
			return nil, fmt.Errorf("operation %s: field %s of its input %v is nothing that a request has",
				o.OperationID, f.Name, t)
		}
		in.params = append(in.params, p)
		o.Parameters = append(o.Parameters, &huma.Param{
			Name: p.name, In: p.in, Description: schema.Description, Required: p.in == "path", Explode: explode,
			Schema: schema,
		})
	}
	return in, nil
}

func bodyOf(contentType string, schema *huma.Schema) *huma.RequestBody {
	return &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{contentType: {Schema: schema}}}
}

// Read makes an input, a pointer to a struct, of a request, or says what is wrong with it.
func (in *Input) Read(w http.ResponseWriter, r *http.Request) (any, *wire.Problem) {
	v := reflect.New(in.t)
	var found huma.ValidateResult
	at := huma.NewPathBuffer(nil, 0)
	for _, p := range in.params {
		text := r.PathValue(p.name)
		if p.in == "query" {
			text = queryparam.Get(r.URL.RawQuery, p.name)
		}
		at.Reset()
		at.Push(p.in)
		at.Push(p.name)
		if text == "" {
			if p.in == "path" {
				found.Add(at, "", "required path parameter is missing")
			}
			continue
		}
		value, err := set(v.Elem().FieldByIndex(p.field), text)
		if err != nil {
			found.Add(at, text, err.Error())
			continue
		}
		huma.Validate(in.schemas, p.schema, at, huma.ModeWriteToServer, value, &found)
	}
	status := http.StatusUnprocessableEntity
	if in.body != nil || in.raw != nil {
		data, problem := in.readBody(w, r)
		if problem != nil {
			return nil, problem
		}
		if in.raw != nil {
			v.Elem().FieldByIndex(in.raw).SetBytes(data)
		} else if bad := in.decode(v.Elem().FieldByIndex(in.body), r.Header.Get("Content-Type"), data, at,
			&found); bad != 0 {
			status = bad
		}
	}
	if len(found.Errors) > 0 {
		return nil, invalid(status, "validation failed", found.Errors...)
	}
	return v.Interface(), nil
}

// readBody is the whole body of a request that must have one.
func (in *Input) readBody(w http.ResponseWriter, r *http.Request) ([]byte, *wire.Problem) {
	// Not supported by test recorders, and there not needed.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(in.timeout))
	data, err := io.ReadAll(io.LimitReader(r.Body, in.limit))
	var slow net.Error
	switch {
	case int64(len(data)) == in.limit:
		return nil, invalid(http.StatusRequestEntityTooLarge,
			fmt.Sprintf("request body is too large limit=%d bytes", in.limit))
	case errors.As(err, &slow) && slow.Timeout():
		return nil, invalid(http.StatusRequestTimeout, "request body read timeout")
	case err != nil:
		return nil, invalid(http.StatusInternalServerError, "cannot read request body", err)
	case len(data) == 0:
		return nil, invalid(http.StatusBadRequest, "request body is required")
	}
	return data, nil
}

// decode sets f to what a body says and adds what is wrong with it to found; then it
// returns the status to answer with if that is not that of a wrong value.
func (in *Input) decode(f reflect.Value, contentType string, data []byte, at *huma.PathBuffer,
	found *huma.ValidateResult) (status int) {
	at.Reset()
	at.Push("body")
	if !isJSON(contentType) {
		found.Add(at, nil, "unknown content type: "+contentType)
		return http.StatusUnsupportedMediaType
	}
	var parsed any
	if err := json.Unmarshal(data, &parsed); err != nil {
		found.Add(at, nil, err.Error())
		return http.StatusBadRequest
	}
	before := len(found.Errors)
	huma.Validate(in.schemas, in.schema, at, huma.ModeWriteToServer, parsed, found)
	if err := json.Unmarshal(data, f.Addr().Interface()); err != nil && len(found.Errors) == before {
		at.Reset()
		at.Push("body")
		found.Add(at, nil, err.Error())
	}
	return 0
}

// isJSON says whether a body is JSON: one of no type is taken for it.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

var textType = reflect.TypeFor[encoding.TextUnmarshaler]()

// settable says whether set can set a value of type t.
func settable(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() == reflect.Bool ||
		reflect.Zero(t).CanInt() || reflect.Zero(t).CanUint() || reflect.PointerTo(t).Implements(textType)
}

// set sets a field to what a parameter says, and returns that as huma judges it.
func set(f reflect.Value, text string) (any, error) {
	switch {
	case f.Kind() == reflect.String:
		f.SetString(text)
		return text, nil
	case f.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("invalid boolean")
		}
		f.SetBool(b)
		return b, nil
	case f.CanInt():
		n, err := strconv.ParseInt(text, 10, f.Type().Bits())
		if err != nil {
			return nil, errors.New("invalid integer")
		}
		f.SetInt(n)
		return n, nil
	case f.CanUint():
		n, err := strconv.ParseUint(text, 10, f.Type().Bits())
		if err != nil {
			return nil, errors.New("invalid integer")
		}
		f.SetUint(n)
		return n, nil
	}
	u, ok := f.Addr().Interface().(encoding.TextUnmarshaler)
	if !ok {
		return nil, fmt.Errorf("a %v cannot be read", f.Type()) // describe lets none pass
	}
	if err := u.UnmarshalText([]byte(text)); err != nil {
		return nil, fmt.Errorf("invalid value: %w", err)
	}
	return text, nil
}
