package merge

import (
	"fmt"
	"slices"

	"github.com/verge-edge/verge/internal/importer/source"
)

// extend adds the services of other files that are extended, and points extends to them.
func (j *merger) extend(root *source.Node) *source.Node {
	services := root.Child("services")
	if services == nil || services.Kind != source.Mapping {
		return root
	}
	for _, k := range services.Keys {
		j.taken[k.Name] = true
	}
	out := *services
	out.Values = slices.Clone(services.Values)
	top := part{j.top, ".", []string{j.source.Base()}}
	for i, s := range out.Values {
		if file := s.Child("extends").Str("file"); file != "" {
			at := []string{"services", services.Keys[i].Name, "extends", "file"}
			if s.File != "" { // it came with an included file
				for _, d := range j.read {
					if d.File == s.File {
						top.doc = d
					}
				}
			}
			out.Values[i] = j.onto(top, s, file, at, nil)
			top.doc = j.top
		}
	}
	out.Keys, out.Values = append(slices.Clone(services.Keys), j.added.Keys...), append(out.Values, j.added.Values...)
	return root.With("services", &out)
}

// onto returns a service that extends one of a file. The path of file begins at the first file.
func (j *merger) onto(p part, s *source.Node, file string, at []string, chain []string) *source.Node {
	first := part{p.doc, ".", nil}
	file, ok := j.below(first, file, at)
	if !ok {
		return s
	}
	q, ok := j.open(first, file, at)
	if !ok {
		return s
	}
	name := j.base(q, file, s.Child("extends").Str("service"), p, at, chain)
	return s.With("extends", &source.Node{Kind: source.Mapping, Line: s.Line,
		Keys:   []source.Key{{Name: "service", Line: s.Line}},
		Values: []*source.Node{{Line: s.Line, Text: name, Value: name}}})
}

// base adds a service of another file, and those that it extends, and returns its name.
func (j *merger) base(q part, file, service string, p part, at, chain []string) string {
	id := file + "\n" + service
	s := q.doc.Root.Child("services").Child(service)
	switch {
	case slices.Contains(chain, id):
		j.refuse(p.doc, at, "extends itself, by %s", source.Quote(file))
		return service
	case len(chain) > maxJoinDepth:
		j.refuse(p.doc, at, "extends more than %d services, one the other", maxJoinDepth)
		return service
	case s == nil || s.Kind != source.Mapping:
		j.refuse(p.doc, at, "there is no service %s in %s", source.Quote(service), source.Quote(file))
		return service
	case j.Bases[id] != "":
		return j.Bases[id]
	}
	chain = source.Extend(chain, id)
	s = q.own("services", s)
	own := []string{"services", service, "extends"}
	switch e := s.Child("extends"); {
	case e.Empty():
		if s.Str("image") == "" && s.Child("build").Empty() {
			// It need not run by itself, but compose-go wants every service to.
			s = s.With("image", &source.Node{Line: s.Line, Text: NoImage, Value: NoImage})
		}
	case e.Str("file") != "":
		s = j.onto(q, s, e.Str("file"), own, chain)
	default:
		other := e.Text
		if e.Kind == source.Mapping {
			other = e.Str("service")
		}
		name := j.base(q, file, other, q, own, chain)
		s = s.With("extends", &source.Node{Line: s.Line, Text: name, Value: name})
	}
	name := service
	for n := 1; j.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", service, n)
	}
	j.taken[name], j.Bases[id] = true, name
	j.added.Keys, j.added.Values = append(j.added.Keys, source.Key{Name: name, Line: s.Line}), append(j.added.Values, s)
	return name
}

// NoImage is the image of a service that is only there to be extended.
const NoImage = "verge.invalid/none"
