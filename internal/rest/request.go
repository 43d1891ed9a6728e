package rest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
)

// Request is what a client sends for an operation.
type Request struct {
	Method, Path string
	Query        url.Values
	Body         []byte
	ContentType  string
}

// Request is the request of an endpoint with an input.
func (e Endpoint[In, Out]) Request(in In) (Request, error) { return e.request(reflect.ValueOf(in)) }

// request reads the tags of an input that the server reads.
func (o *Operation) request(in reflect.Value) (Request, error) {
	r := Request{Method: o.Method, Path: o.Path, Query: url.Values{}}
	for _, f := range reflect.VisibleFields(in.Type()) {
		v := in.FieldByIndex(f.Index)
		switch name := f.Tag.Get("path"); {
		case f.Anonymous: // its fields come, too
			continue
		case f.Name == "RawBody":
			r.Body, r.ContentType = v.Bytes(), f.Tag.Get("contentType")
			continue
		case f.Name == "Body":
			data, err := json.Marshal(v.Interface())
			if err != nil {
				return Request{}, fmt.Errorf("encode the request: %w", err)
			}
			r.Body, r.ContentType = data, "application/json"
			continue
		case name != "":
			r.Path = strings.Replace(r.Path, "{"+name+"}", url.PathEscape(fmt.Sprint(v.Interface())), 1)
			continue
		}
		if v.IsZero() {
			continue
		}
		text := fmt.Sprint(v.Interface())
		if m, ok := v.Interface().(encoding.TextMarshaler); ok {
			data, err := m.MarshalText()
			if err != nil {
				return Request{}, fmt.Errorf("encode the request: %w", err)
			}
			text = string(data)
		}
		r.Query.Set(f.Tag.Get("query"), text)
	}
	return r, nil
}

// PathOf is the path of a stream with the values of its parameters, in their order.
func (o *Operation) PathOf(values ...string) string {
	path := o.Path
	for _, v := range values {
		begin, rest, ok := strings.Cut(path, "{")
		name, end, closed := strings.Cut(rest, "}")
		if !ok || !closed {
			break
		}
		if !strings.HasSuffix(name, "...") { // what has several segments needs no escape
			v = url.PathEscape(v)
		}
		path = begin + v + end
	}
	return path
}
