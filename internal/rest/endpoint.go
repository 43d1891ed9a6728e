package rest

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// maxApplyBytes leaves room above the limit of a descriptor, so that one that
// is a little too long gets the parser's own message.
const maxApplyBytes = api.MaxDescriptorBytes + 4096

// Endpoint is an operation of the HTTP interface that takes an In and answers an Out, both
// in JSON. The server, the client and the fake of tests go by the same value.
//
// In is a struct whose fields are tagged path or query, and have a Body (JSON) or a RawBody
// (as it came) if the request has one. Fields that are zero are left out of the query.
type Endpoint[In, Out any] struct{ *Operation }

// Operation is what an endpoint is without its types.
type Operation struct {
	// ID names it in the description and in the audit log.
	ID           string
	Method, Path string
	Summary      string
	Description  string
	// Needs is what is needed of who asks.
	Needs Need
	// MaxBody bounds the body of a request.
	MaxBody int64
	// Unsigned requests have no credentials; their body proves who sends it.
	Unsigned bool
	// In and Out are the types of the request and the answer; nil where they are streams.
	In, Out reflect.Type
	// Group is the part of a backend that serves it.
	Group reflect.Type

	serve func(backend any) Handler
}

// Handler serves an operation: in is a pointer to its In, out its Out.
type Handler func(ctx context.Context, in any) (out any, err error)

// Pattern is the operation for a http.ServeMux.
func (o *Operation) Pattern() string { return o.Method + " " + o.Path }

// Handler is what serves the operation with a backend: nil where the server itself has to.
func (o *Operation) Handler(backend any) Handler {
	if o.serve == nil {
		return nil
	}
	return o.serve(backend)
}

// ServedBy says whether a backend has the group of the operation.
func (o *Operation) ServedBy(backend any) bool {
	return o.Group == nil || reflect.TypeOf(backend).Implements(o.Group)
}

// operations are all, in the order of the files that define them.
var operations []*Operation

// Operations are all operations with an In and an Out.
func Operations() []*Operation { return operations }

// define adds an endpoint that the group B of a backend serves. Its pattern is a method and
// a path. Where serve is nil the server has a handler of its own for it.
func define[B, In, Out any](id, pattern, summary string, needs Need, serve func(context.Context, B, *In) (Out, error), more ...func(*Operation)) Endpoint[In, Out] {
	method, path, _ := strings.Cut(pattern, " ")
	o := &Operation{
		ID: id, Method: method, Path: path, Summary: summary, Needs: needs, MaxBody: maxApplyBytes,
		In: reflect.TypeFor[In](), Out: reflect.TypeFor[Out](), Group: reflect.TypeFor[B](),
	}
	if serve != nil {
		o.serve = func(backend any) Handler {
			b, ok := backend.(B)
			if !ok {
				return nil
			}
			e := Endpoint[In, Out]{o}
			return e.Handle(func(ctx context.Context, in *In) (Out, error) { return serve(ctx, b, in) })
		}
	}
	for _, set := range more {
		set(o)
	}
	operations = append(operations, o)
	return Endpoint[In, Out]{o}
}

// Handle makes a handler of the endpoint of a function.
func (e Endpoint[In, Out]) Handle(f func(context.Context, *In) (Out, error)) Handler {
	return func(ctx context.Context, in any) (any, error) {
		i, ok := in.(*In)
		if !ok {
			return nil, fmt.Errorf("operation %s takes a %T, not a %T", e.ID, i, in)
		}
		return f(ctx, i)
	}
}

// stream is an operation whose request or answer is no JSON of a bounded size. The server
// has a handler for it.
func stream(id, pattern string, needs Need) *Operation {
	method, path, _ := strings.Cut(pattern, " ")
	return &Operation{ID: id, Method: method, Path: path, Needs: needs}
}

// streamOf is a stream that the group B of a backend serves.
func streamOf[B any](id, pattern string, needs Need) *Operation {
	o := stream(id, pattern, needs)
	o.Group = reflect.TypeFor[B]()
	return o
}

// What endpoints may have beside.
func maxBody(n int64) func(*Operation)       { return func(o *Operation) { o.MaxBody = n } }
func described(text string) func(*Operation) { return func(o *Operation) { o.Description = text } }
func unsigned(o *Operation)                  { o.Unsigned, o.MaxBody = true, maxJoinBytes }

// maxJoinBytes bounds what is read of who has shown no credentials.
const maxJoinBytes = 16 << 10

// Items is a list: an object, so that fields can be added beside it.
type Items[T any] struct {
	Items []T `json:"items"`
}

// None is a request or an answer that says nothing.
type None struct{}

func list[T any](v []T, err error) (Items[T], error) {
	if v == nil {
		v = []T{} // [] and not null in JSON
	}
	return Items[T]{Items: v}, err
}

// Referrals say of operations that a tier does not serve where they are served, by ID.
type Referrals map[string]Referral

// Referral says where an operation is served.
type Referral struct {
	what, where string
	itsCluster  bool
}

// AtRoot refers to the root. what is what is done there, as in "removing a cluster".
func AtRoot(what string) Referral { return Referral{what: what, where: "the root"} }

// AtCluster refers to the cluster that the request names, if it does.
func AtCluster(what string) Referral {
	return Referral{what: what, where: "its cluster", itsCluster: true}
}

// At refers to a place in words.
func At(what, where string) Referral { return Referral{what: what, where: where} }

// Problem is the answer to a request whose parameters param knows.
func (r Referral) Problem(param func(name string) string) error {
	if cluster := param("cluster"); r.itsCluster && cluster != "" {
		return ElsewhereAt(r.what, cluster)
	}
	return Elsewhere(r.what, r.where)
}

// Elsewhere is the error for an operation that is not served here, but at a place.
func Elsewhere(what, where string) error {
	return elsewhere(what, where, "use a context of "+where+" (verge context use NAME)")
}

// ElsewhereAt is the error for an operation that only the named cluster serves.
func ElsewhereAt(what, cluster string) error {
	return elsewhere(what, "cluster "+cluster, ContextOf(cluster))
}

func elsewhere(what, where, remedy string) error {
	return wire.Problemf(http.StatusMisdirectedRequest, "elsewhere", remedy, "this is not the place for that", "%s is done at %s", what, where)
}

// ContextOf says how to get a context of a cluster.
func ContextOf(cluster string) string {
	return "use a context of cluster " + cluster + " (verge context list shows yours); its administrator makes one with: verge user create NAME --operator " + cluster + " > FILE, which you take with: verge context use FILE"
}
