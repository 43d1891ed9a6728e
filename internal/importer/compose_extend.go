package importer

import (
	"fmt"
	"slices"
)

// extend leads what extends a service of another file to that service, which it adds.
func (j *joiner) extend(root *node) *node {
	services := root.child("services")
	if services == nil || services.kind != mappingKind {
		return root
	}
	for _, k := range services.keys {
		j.taken[k.name] = true
	}
	out := *services
	out.values = slices.Clone(services.values)
	top := part{j.c.doc, ".", []string{j.c.source.base()}}
	for i, s := range out.values {
		if file := s.child("extends").str("file"); file != "" {
			at := []string{"services", services.keys[i].name, "extends", "file"}
			if s.file != "" { // it came with a file that was included
				for _, d := range j.read {
					if d.file == s.file {
						top.doc = d
					}
				}
			}
			out.values[i] = j.onto(top, s, file, at, nil)
			top.doc = j.c.doc
		}
	}
	out.keys, out.values = append(slices.Clone(services.keys), j.added.keys...), append(out.values, j.added.values...)
	return root.with("services", &out)
}

// onto is a service that extends one of a file, whose path begins at the first one.
func (j *joiner) onto(p part, s *node, file string, at []string, chain []string) *node {
	first := part{p.doc, ".", nil}
	file, ok := j.below(first, file, at)
	if !ok {
		return s
	}
	q, ok := j.open(first, file, at)
	if !ok {
		return s
	}
	name := j.base(q, file, s.child("extends").str("service"), p, at, chain)
	return s.with("extends", &node{kind: mappingKind, line: s.line, keys: []key{{"service", s.line}}, values: []*node{{line: s.line, text: name, value: name}}})
}

// base adds a service of another file, and those that it extends, and returns its name.
func (j *joiner) base(q part, file, service string, p part, at, chain []string) string {
	id := file + "\n" + service
	s := q.doc.root.child("services").child(service)
	switch {
	case slices.Contains(chain, id):
		j.refuse(p.doc, at, "extends itself, by %s", quote(file))
		return service
	case len(chain) > maxJoinDepth:
		j.refuse(p.doc, at, "extends more than %d services, one the other", maxJoinDepth)
		return service
	case s == nil || s.kind != mappingKind:
		j.refuse(p.doc, at, "there is no service %s in %s", quote(service), quote(file))
		return service
	case j.bases[id] != "":
		return j.bases[id]
	}
	chain = extend(chain, id)
	s = q.own("services", s)
	own := []string{"services", service, "extends"}
	switch e := s.child("extends"); {
	case e.empty():
		if s.str("image") == "" && s.child("build").empty() {
			// It need not run by itself, but compose-go wants every service to.
			s = s.with("image", &node{line: s.line, text: noImage, value: noImage})
		}
	case e.str("file") != "":
		s = j.onto(q, s, e.str("file"), own, chain)
	default:
		other := e.text
		if e.kind == mappingKind {
			other = e.str("service")
		}
		name := j.base(q, file, other, q, own, chain)
		s = s.with("extends", &node{line: s.line, text: name, value: name})
	}
	name := service
	for n := 1; j.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", service, n)
	}
	j.taken[name], j.bases[id] = true, name
	j.added.keys, j.added.values = append(j.added.keys, key{name, s.line}), append(j.added.values, s)
	return name
}

// noImage is that of a service which is only there to be extended.
const noImage = "verge.invalid/none"

// settle takes out of what compose-go made what is not a service of the project. What those
// that extend another have of its secrets they have, too.
func (c *composer) settle() bool {
	services := c.doc.root.child("services")
	var inherit func(name string, depth int)
	inherit = func(name string, depth int) {
		e := services.child(name).child("extends")
		if e.empty() || depth > len(services.keys) {
			return
		}
		base := e.text
		if e.kind == mappingKind {
			base = e.str("service")
		}
		inherit(base, depth+1)
		for variable, secret := range c.secrets[base] {
			if _, own := c.project.Services[name].Environment[variable]; own || c.secrets[name][variable] != "" {
				continue
			}
			if c.secrets[name] == nil {
				c.secrets[name] = map[string]string{}
			}
			c.secrets[name][variable] = secret
		}
	}
	for _, k := range services.keys {
		inherit(k.name, 0)
	}
	if c.joined == nil {
		return true
	}
	for _, name := range c.joined.bases {
		delete(c.project.Services, name)
		delete(c.project.DisabledServices, name)
	}
	fine := true
	for name, s := range c.project.Services {
		if s.Image == noImage && s.Build == nil {
			c.report.at(Refused, c.doc, c.path(name), "is no valid compose file: the service has neither an image nor a build, nor has what it extends")
			fine = false
		} else if s.Image == noImage {
			s.Image = ""
			c.project.Services[name] = s
		}
	}
	return fine
}
