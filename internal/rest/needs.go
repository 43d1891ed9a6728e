package rest

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Every operation says what it needs:
//
//	may(access.Delete, app("app"))       the application named by a path or query parameter
//	may(access.Exec, instance("id"))     the instance, its namespace and its cluster
//	may(access.Operate, cluster("name")) a cluster; worker("cluster", "worker") for one of its workers
//	may(access.Secret, namespace("ns"))  a namespace
//	may(access.Manage, system)           the root or cluster itself
//	may(access.Admit, about(func(in *TokenIn) access.Object { … }))  from the body
//	each(func(v apiv1.AppView) access.Object { … })  a list: who asks gets what it may see of it
//	part(func(s Site, who access.Who, out T) T { … })  anyone; of the answer what may be seen
//	may(…).silent()                      not in the audit log: a part of what was recorded when it began
//	anyone                               whoever is authenticated
//	everybody                            also who is not (health)

// Need says what an operation needs of who asks. The zero value is none: nobody may.
type Need struct {
	Verb access.Verb
	// Finder finds what the request is about; nil: it is about nobody's objects.
	Finder *Finder
	// Keep leaves of an answer what who asks may see; nil: the answer is given whole.
	Keep func(s Site, who access.Who, out any) (any, error)
	// Open: nobody need be known.
	Open bool
	// Noted: it is in the audit log although it is no change by its verb; Silent: it is not
	// although it is one.
	Noted, Silent bool
	// Nodes: clusters and workers may ask too.
	Nodes bool
}

// Site is where an operation is asked for.
type Site struct {
	// Name is the cluster whose interface this is; "" at a root.
	Name string
	// Locate is that of its Backend.
	Locate func(kind access.Kind, name string) (o access.Object, ok bool)
}

// Finder finds the object that a request is about.
type Finder struct {
	// params of the path or query that it reads.
	params []string
	// in is the type of input that it reads; nil reads none.
	in reflect.Type
	// Find finds it. It is ErrAbsent where there is no such object.
	Find func(s Site, q Question) (access.Object, error)
}

// Question is what a request gives to find its object by.
type Question struct {
	Param func(name string) string
	In    any // pointer to the input
}

// ErrAbsent: there is no such object.
var ErrAbsent = errors.New("there is no such object")

func may(v access.Verb, f Finder) Need { return Need{Verb: v, Finder: &f} }

var (
	// anyone who is authenticated may: the operation is about nobody's objects.
	anyone = Need{Verb: access.See}
	// everybody may, known or not.
	everybody = Need{Verb: access.See, Open: true}
	// joining is for everybody who has a token for it, and recorded.
	joining = Need{Verb: access.See, Open: true, Noted: true}
)

// silent is n for a part of something that was recorded when it began, such as the
// input of a session.
func (n Need) silent() Need {
	n.Silent = true
	return n
}

// forNodes is n for what clusters and workers may ask with their own certificates.
// Whatever else it says, they are refused all other operations.
func (n Need) forNodes() Need {
	n.Nodes = true
	return n
}

// Recorded says whether an operation with this need and method is in the audit log.
func (n Need) Recorded(method string) bool {
	if n.Silent {
		return false
	}
	switch n.Verb {
	case access.Exec:
		return true
	case access.See, access.Logs, access.Top, access.Plan, access.Audit, "":
		return n.Noted
	}
	return method != http.MethodGet
}

// each filters a list by what its elements are.
func each[T any](of func(T) access.Object) Need {
	return eachTo(access.See, of)
}

// eachTo is each for another right than that to see.
func eachTo[T any](verb access.Verb, of func(T) access.Object) Need {
	return part(func(s Site, who access.Who, out Items[T]) Items[T] {
		kept := []T{}
		for _, v := range out.Items {
			if access.May(who, verb, s.Here(of(v))) == nil {
				kept = append(kept, v)
			}
		}
		out.Items = kept
		return out
	})
}

// part filters an answer.
func part[T any](f func(s Site, who access.Who, out T) T) Need {
	return Need{Verb: access.See, Keep: func(s Site, who access.Who, out any) (any, error) {
		v, ok := out.(T)
		if !ok {
			return nil, fmt.Errorf("a filter for %T was given %T", v, out)
		}
		return f(s, who, v), nil
	}}
}

// Here is an object as this role is asked for it: at a site, all that is not of
// another cluster is the site's.
func (s Site) Here(o access.Object) access.Object {
	if s.Name != "" && (o.Cluster == "" || o.Cluster == s.Name) {
		o.Cluster, o.Site = s.Name, true
	}
	return o
}

// app and instance find an object by a parameter of the path or query. Its name is
// written at each operation, where one looks for it.

func app(param string) Finder      { return located(access.Application, param) } //nolint:unparam // see above
func instance(param string) Finder { return located(access.Instance, param) }    //nolint:unparam // see above

func located(kind access.Kind, param string) Finder {
	return Finder{params: []string{param}, Find: func(s Site, q Question) (access.Object, error) {
		return s.locate(kind, q.Param(param))
	}}
}

// locate asks the backend where an object is.
func (s Site) locate(kind access.Kind, name string) (access.Object, error) {
	o, ok := s.Locate(kind, name)
	o.Kind, o.Name = kind, name
	if !ok {
		return o, ErrAbsent
	}
	return s.Here(o), nil
}

// namespace and cluster are found by their name alone.
func namespace(param string) Finder { //nolint:unparam // see app
	return named(param, ofNamespaceNamed)
}

func cluster(param string) Finder { //nolint:unparam // see app
	return named(param, func(name string) access.Object {
		return access.Object{Kind: access.Cluster, Name: name, Cluster: name}
	})
}

func named(param string, of func(name string) access.Object) Finder {
	return Finder{params: []string{param}, Find: func(s Site, q Question) (access.Object, error) {
		return s.Here(of(q.Param(param))), nil
	}}
}

func worker(clusterParam, workerParam string) Finder { //nolint:unparam // see app
	return Finder{params: []string{clusterParam, workerParam}, Find: func(s Site, q Question) (access.Object, error) {
		cluster := q.Param(clusterParam)
		return s.Here(access.Object{Kind: access.Worker, Name: cluster + "/" + q.Param(workerParam), Cluster: cluster}), nil
	}}
}

// system is the root or cluster itself.
var system = Finder{Find: func(s Site, _ Question) (access.Object, error) {
	return s.Here(access.Object{Kind: access.System}), nil
}}

// about finds the object in the input itself.
func about[I any](of func(in *I) access.Object) Finder {
	return Finder{in: reflect.TypeFor[I](), Find: func(s Site, q Question) (access.Object, error) {
		in, ok := q.In.(*I)
		if !ok {
			return access.Object{}, fmt.Errorf("the object of a %T was looked for in a %T", in, q.In)
		}
		return s.Here(of(in)), nil
	}}
}

// hasDescriptor is an input with a descriptor as its body.
type hasDescriptor interface{ descriptor() []byte }

// inDescriptor is the namespace that the descriptor in the body names.
var inDescriptor = Finder{in: reflect.TypeFor[hasDescriptor](), Find: func(s Site, q Question) (access.Object, error) {
	in, ok := q.In.(hasDescriptor)
	if !ok {
		return access.Object{}, fmt.Errorf("a descriptor was looked for in a %T", q.In)
	}
	spec, _, err := descriptor.Parse("descriptor", in.descriptor())
	if err != nil {
		return access.Object{}, InvalidDescriptor(err)
	}
	return s.Here(ofNamespaceNamed(wire.NamespaceOf(spec))), nil
}}

// InvalidDescriptor is the answer for a descriptor that cannot be parsed.
func InvalidDescriptor(err error) error {
	return wire.Problemf(http.StatusUnprocessableEntity, "invalid-descriptor", "verge validate FILE shows every error with its line",
		"the descriptor is not valid", "%v", err)
}

// Check says whether an input of a type, or the path of a pattern, has what a need reads.
func (n Need) Check(in reflect.Type, pattern string) error {
	f := n.Finder
	if f == nil {
		return nil
	}
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

// Asked is the question of a decoded input.
func Asked(in any) Question {
	v := reflect.ValueOf(in).Elem()
	return Question{In: in, Param: func(name string) string {
		i, ok := parameter(v.Type(), name)
		if !ok {
			return ""
		}
		return v.FieldByIndex(i).String()
	}}
}

// String says in words what is needed, for the description of the interface.
func (n Need) String() string {
	switch {
	case n.Verb == "":
		return "nobody may"
	case n.Open:
		return "open to everybody"
	case n.Keep != nil:
		return "open to whoever is authenticated; shows what may be seen"
	case n.Finder == nil:
		return "open to whoever is authenticated"
	}
	return "the right to " + string(n.Verb)
}
