package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Every operation says what it needs, as the last argument of op:
//
//	may(access.Delete, app("app"))       the application named by a path or query parameter
//	may(access.Exec, instance("id"))     the instance, its namespace and its cluster
//	may(access.Operate, cluster("name")) a cluster; worker("cluster", "worker") for one of its workers
//	may(access.Secret, namespace("ns"))  a namespace
//	may(access.Manage, system)           the root or cluster itself
//	may(access.Admit, about(func(in *tokenInput) access.Object { … }))  from the body
//	each(func(v wire.AppView) access.Object { … })  a list: who asks gets what it may see of it
//	part(func(s *Server, who access.Who, out T) T { … })  anyone; of the answer what may be seen
//	may(…).silent()                      not in the audit log: a part of what was recorded when it began
//	anyone                               whoever is authenticated
//	everybody                            also who is not (health)
//
// A handler of the mux beside huma is registered with s.handle, which wants the
// same.

// need says what an operation needs of who asks. The zero value is none: nobody
// may.
type need struct {
	verb   access.Verb
	finder *finder // nil: it is about nobody's objects
	keep   keeper  // nil: the answer is given whole
	open   bool    // nobody need be known
	note   bool    // it is recorded although it is no change by its verb
	quiet  bool    // it is not recorded although it is a change: see silent
	nodes  bool    // clusters and workers may ask too
	id     string  // of the operation, set when it is registered
}

// finder finds the object that a request is about.
type finder struct {
	// params of the path or query that it reads.
	params []string
	// in is the type of input that it reads; nil reads none.
	in   reflect.Type
	find func(s *Server, q question) (access.Object, error)
}

// question is what a request gives to find its object by.
type question struct {
	param func(name string) string
	in    any // pointer to the input
}

// errAbsent: there is no such object.
var errAbsent = errors.New("there is no such object")

// keeper leaves of an answer what who asks may see.
type keeper func(s *Server, who access.Who, out any) (any, error)

// needKey finds the need in an operation's metadata.
const needKey = "need"

func may(v access.Verb, f finder) need { return need{verb: v, finder: &f} }

var (
	// anyone who is authenticated may: the operation is about nobody's objects.
	anyone = need{verb: access.See}
	// everybody may, known or not.
	everybody = need{verb: access.See, open: true}
	// joining is for everybody who has a token for it, and recorded.
	joining = need{verb: access.See, open: true, note: true}
)

// silent is n for a part of something that was recorded when it began, such as the
// input of a session.
func (n need) silent() need {
	n.quiet = true
	return n
}

// forNodes is n for what clusters and workers may ask with their own certificates.
// Whatever else it says, they are refused all other operations.
func (n need) forNodes() need {
	n.nodes = true
	return n
}

// each filters a list by what its elements are.
func each[T any](of func(T) access.Object) need {
	return part(func(s *Server, who access.Who, out items[T]) items[T] {
		out.Items = access.Visible(who, out.Items, func(v T) access.Object { return s.here(of(v)) })
		return out
	})
}

// part filters an answer.
func part[T any](f func(s *Server, who access.Who, out T) T) need {
	return need{verb: access.See, keep: func(s *Server, who access.Who, out any) (any, error) {
		v, ok := out.(T)
		if !ok {
			return nil, fmt.Errorf("a filter for %T was given %T", v, out)
		}
		return f(s, who, v), nil
	}}
}

// here is an object as this role is asked for it: at a site, all that is not of
// another cluster is the site's.
func (s *Server) here(o access.Object) access.Object {
	if s.site != "" && (o.Cluster == "" || o.Cluster == s.site) {
		o.Cluster, o.Site = s.site, true
	}
	return o
}

// app and instance find an object by a parameter of the path or query. Its name is
// written at each operation, where one looks for it.

func app(param string) finder      { return located(access.Application, param) } //nolint:unparam // see above
func instance(param string) finder { return located(access.Instance, param) }    //nolint:unparam // see above

func located(kind access.Kind, param string) finder {
	return finder{params: []string{param}, find: func(s *Server, q question) (access.Object, error) {
		return s.locate(kind, q.param(param))
	}}
}

// locate asks the backend where an object is.
func (s *Server) locate(kind access.Kind, name string) (access.Object, error) {
	o, ok := s.backend.Locate(kind, name)
	o.Kind, o.Name = kind, name
	if !ok {
		return o, errAbsent
	}
	return s.here(o), nil
}

// namespace and cluster are found by their name alone.
func namespace(param string) finder { //nolint:unparam // see app
	return named(param, func(name string) access.Object {
		return access.Object{Kind: access.Namespace, Name: name, Namespace: name}
	})
}

func cluster(param string) finder { //nolint:unparam // see app
	return named(param, func(name string) access.Object {
		return access.Object{Kind: access.Cluster, Name: name, Cluster: name}
	})
}

func named(param string, of func(name string) access.Object) finder {
	return finder{params: []string{param}, find: func(s *Server, q question) (access.Object, error) {
		return s.here(of(q.param(param))), nil
	}}
}

func worker(clusterParam, workerParam string) finder { //nolint:unparam // see app
	return finder{params: []string{clusterParam, workerParam}, find: func(s *Server, q question) (access.Object, error) {
		cluster := q.param(clusterParam)
		return s.here(access.Object{Kind: access.Worker, Name: cluster + "/" + q.param(workerParam), Cluster: cluster}), nil
	}}
}

// system is the root or cluster itself.
var system = finder{find: func(s *Server, _ question) (access.Object, error) {
	return s.here(access.Object{Kind: access.System}), nil
}}

// about finds the object in the input itself.
func about[I any](of func(in *I) access.Object) finder {
	return finder{in: reflect.TypeFor[I](), find: func(s *Server, q question) (access.Object, error) {
		in, ok := q.in.(*I)
		if !ok {
			return access.Object{}, fmt.Errorf("the object of a %T was looked for in a %T", in, q.in)
		}
		return s.here(of(in)), nil
	}}
}

// described is an input with a descriptor as its body.
type described interface{ descriptor() []byte }

// inDescriptor is the namespace that the descriptor in the body names.
var inDescriptor = finder{in: reflect.TypeFor[described](), find: func(s *Server, q question) (access.Object, error) {
	in, ok := q.in.(described)
	if !ok {
		return access.Object{}, fmt.Errorf("a descriptor was looked for in a %T", q.in)
	}
	spec, _, err := descriptor.Parse("descriptor", in.descriptor())
	if err != nil {
		return access.Object{}, InvalidDescriptor(err)
	}
	ns := wire.NamespaceOf(spec)
	return s.here(access.Object{Kind: access.Namespace, Name: ns, Namespace: ns}), nil
}}

// InvalidDescriptor is the answer for a descriptor that cannot be parsed.
func InvalidDescriptor(err error) error {
	return wire.Problemf(http.StatusUnprocessableEntity, "invalid-descriptor", "verge validate FILE shows every error with its line",
		"the descriptor is not valid", "%v", err)
}

// check says whether an input of a type, or the path of a pattern, has what f
// reads.
func (f finder) check(in reflect.Type, pattern string) error {
	if f.in != nil && (in == nil || (f.in.Kind() == reflect.Interface && !reflect.PointerTo(in).Implements(f.in)) || (f.in.Kind() != reflect.Interface && in != f.in)) {
		return fmt.Errorf("its object is found in a %v, its input is a %v", f.in, in)
	}
	for _, p := range f.params {
		if _, ok := parameter(in, p); !ok && !strings.Contains(pattern, "{"+p+"}") {
			return fmt.Errorf("it has no parameter %q", p)
		}
	}
	return nil
}

// parameter is the field of an input that a parameter of the path or query is
// decoded into.
func parameter(in reflect.Type, name string) (index []int, ok bool) {
	if in == nil {
		return nil, false
	}
	for _, f := range reflect.VisibleFields(in) {
		if f.Type.Kind() == reflect.String && (f.Tag.Get("path") == name || f.Tag.Get("query") == name) {
			return f.Index, true
		}
	}
	return nil, false
}

// asked is the question of a decoded input.
func asked(in any) question {
	v := reflect.ValueOf(in).Elem()
	return question{in: in, param: func(name string) string {
		i, ok := parameter(v.Type(), name)
		if !ok {
			return ""
		}
		return v.FieldByIndex(i).String()
	}}
}

// String says in words what is needed, for the description of the interface.
func (n need) String() string {
	switch {
	case n.verb == "":
		return "nobody may"
	case n.open:
		return "open to everybody"
	case n.keep != nil:
		return "open to whoever is authenticated; shows what may be seen"
	case n.finder == nil:
		return "open to whoever is authenticated"
	}
	return "the right to " + string(n.verb)
}

// permit says whether who asks may do what n needs: nil, or what to answer.
func (s *Server) permit(ctx context.Context, n need, q question) error {
	who := access.From(ctx)
	if n.finder == nil {
		return nil
	}
	if who.Admin { // who may everything, whatever it is about
		return access.May(who, n.verb, access.Object{})
	}
	o, err := n.finder.find(s, q)
	return decide(who, n.verb, o, err)
}

// handle registers a handler beside huma's, with what it needs. Its object is
// found by the wildcards of the pattern. What is recorded is recorded before it
// begins.
func (s *Server) handle(pattern string, n need, h http.HandlerFunc) {
	method, _, _ := strings.Cut(pattern, " ")
	n.id = pattern
	s.declare(pattern, n, nil)
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		q := question{param: r.PathValue}
		err := s.permit(r.Context(), n, q)
		if err == nil && n.recorded(method) {
			err = s.begin(r.Context(), n, q)
		} else if err != nil {
			err = s.record(r.Context(), n, q, nil, err)
		}
		if err != nil {
			p := asProblem(err)
			writeProblem(w, &wire.Problem{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Remedy: p.Remedy})
			return
		}
		h(w, r)
	})
}

// declare notes what an operation needs. What is wrong with that New returns.
func (s *Server) declare(pattern string, n need, in reflect.Type) {
	if n.verb == "" {
		return // refused, see authenticate
	}
	if n.finder != nil {
		if err := n.finder.check(in, pattern); err != nil {
			s.wrong = append(s.wrong, fmt.Errorf("what %s needs: %w", pattern, err))
		}
	}
	s.needs[pattern] = n
}

// decide turns a refusal into what is answered. found is errAbsent for an object
// that nobody knows: an administrator learns that from the operation itself.
func decide(who access.Who, v access.Verb, o access.Object, found error) error {
	if found != nil && !errors.Is(found, errAbsent) {
		return found
	}
	err := access.May(who, v, o)
	var d *access.Denied
	switch {
	case found != nil && !who.Admin, errors.As(err, &d) && d.Hidden:
		return notThere(o)
	case d != nil:
		return wire.Problemf(http.StatusForbidden, "forbidden", "an administrator can change that: verge user grant NAME", "not allowed", "%s", d.Error())
	}
	return err
}

// notThere is the answer for what does not exist and for what who asks may not
// see: word for word the same.
func notThere(o access.Object) error {
	return wire.Problemf(http.StatusNotFound, "no-such-"+string(o.Kind), "list what you may see: verge get "+string(o.Kind)+"s",
		"there is no such "+string(o.Kind), "%s is not known, or you may not see it", o.Name)
}

// undeclared answers for an operation that does not say what it needs.
func undeclared(what string) *wire.Problem {
	return wire.Problemf(http.StatusForbidden, "undeclared", "this is a bug: report it",
		"not allowed", "%s does not say who may use it, so nobody may", what)
}
