package oakestra

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

// head is the name and namespace of an application.
type head struct {
	node            *source.Node
	path            []string
	name, namespace string // as they are written
	called          string // in Verge
}

// heads are the applications with a name, each different. One without a name is refused.
func (k *converter) heads(list []*source.Node) (out []*head) {
	for i, a := range list {
		path := []string{"applications", source.Index(i)}
		if a.Kind != source.Mapping {
			k.refuse(path, "is not an application")
			continue
		}
		h := &head{node: a, path: path}
		var ok bool
		if h.name, ok = k.name(a, "application_name", path); !ok {
			continue
		}
		if a.Child("application_namespace") != nil {
			if h.namespace, ok = k.name(a, "application_namespace", path); !ok {
				continue
			}
		}
		full := h.name + "." + h.namespace
		if other := k.known.Known[full]; other != "" {
			k.refuse(source.Extend(path, "application_name"),
				"the application %s of this namespace is there already, in %s: Oakestra takes one of a name; give "+
					"this one another",
				source.Quote(h.name), other)
			continue
		}
		file, line := k.doc.Locate(path)
		k.known.Known[full] = fmt.Sprintf("%s:%d", file, line)
		out = append(out, h)
	}
	var said []string
	for _, h := range out {
		said = append(said, h.name)
	}
	for i, called := range k.known.given.All(said) {
		out[i].called = called
	}
	return out
}

// name checks a name by Oakestra's rule: 1 to 30 letters and digits.
func (k *converter) name(n *source.Node, field string, path []string) (string, bool) {
	v := n.Child(field)
	s, isText := "", false
	if v != nil {
		s, isText = v.Value.(string)
	}
	if !isText || s == "" || len(s) > 30 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		if v == nil || v.Value == nil {
			k.refuse(path, "has no %s", field)
		} else {
			k.refuse(source.Extend(path, field), "%s is not a name of Oakestra: that has 1 to 30 letters and digits",
				source.Quote(v.Text))
		}
		return "", false
	}
	return s, true
}

// microservice of an application.
type microservice struct {
	node            *source.Node
	path            []string
	name, namespace string // as they are written
	called          string // in Verge
}

// full is its name within the application.
func (m *microservice) full() string { return m.name + "." + m.namespace }

// microservices reads a list, nil if one has no unique name. All names are read first, since
// services refer to each other.
func (k *converter) microservices(list *source.Node, path []string, of string) (out []*microservice) {
	known := map[string]bool{}
	var said []string
	for i, s := range list.Values {
		m := &microservice{node: s, path: source.Extend(path, source.Index(i))}
		if s.Kind != source.Mapping {
			k.refuse(m.path, "is not a microservice")
			return nil
		}
		var ok bool
		if m.name, ok = k.name(s, "microservice_name", m.path); !ok {
			return nil
		}
		if m.namespace, ok = k.microserviceNamespace(s, m.path, of); !ok {
			return nil
		}
		if known[m.full()] {
			k.refuse(source.Extend(m.path, "microservice_name"), "%s is the name of another microservice too",
				source.Quote(m.name))
			return nil
		}
		known[m.full()] = true
		out, said = append(out, m), append(said, m.name)
	}
	given := draft.Names{}
	for i, called := range given.All(said) {
		m := out[i]
		if m.called = called; called != m.name {
			k.said(source.Extend(m.path, "microservice_name"), "is called %s: others find it by that name", called)
		}
	}
	return out
}

// idsOf maps the names that connectivity may use for a microservice to names of Verge. An id counts
// if no name matches.
func idsOf(list []*microservice) map[string]string {
	ids := map[string]string{}
	add := func(id, called string) {
		if id != "" && ids[id] == "" {
			ids[id] = called
		}
	}
	for _, m := range list {
		ids[m.full()] = m.called
	}
	for _, m := range list {
		add(m.name, m.called)
	}
	for i, m := range list {
		add(m.node.Str("microserviceID"), m.called)
		add(strconv.Itoa(i+1), m.called)
	}
	return ids
}

// microserviceNamespace is the namespace of a microservice, which follows the rules of names.
func (k *converter) microserviceNamespace(s *source.Node, path []string, of string) (string, bool) {
	if s.Child("microservice_namespace").Empty() {
		return "", true
	}
	ns, ok := k.name(s, "microservice_namespace", path)
	if ok && of != "" && draft.Label(ns) != of {
		k.lost(source.Extend(path, "microservice_namespace"),
			"is not carried over: all services of an application are in its namespace, %s", of)
	}
	return ns, ok
}

// namedHostPort is an address and the microservice that uses it.
type namedHostPort struct {
	draft.HostPort
	by string
}

// named returns the addresses in commands and environments of microservices.
func named(list *source.Node) map[string][]namedHostPort {
	out := map[string][]namedHostPort{}
	for _, s := range list.Values {
		var texts []string
		for _, field := range textFields {
			if l := s.Child(field); l != nil && l.Kind == source.List {
				for _, v := range l.Values {
					texts = append(texts, v.Text)
				}
			}
		}
		for _, a := range draft.Addresses(texts...) {
			out[a.Host] = append(out[a.Host], namedHostPort{a, s.Str("microservice_name")})
		}
	}
	return out
}

// textFields are the fields of a microservice in which others may be named.
var textFields = []string{"cmd", "environment"}

// oldNames notes references to microservices by Oakestra names that do not exist in Verge.
func (k *converter) oldNames(h *head, list []*microservice) {
	by := map[string]*microservice{}
	for _, m := range list {
		by[m.full()], by[h.name+"."+h.namespace+"."+m.full()] = m, m
	}
	for _, m := range list {
		if by[m.name] == nil {
			by[m.name] = m
		}
	}
	for _, m := range list {
		for _, field := range textFields {
			l := m.node.Child(field)
			if l == nil {
				continue
			}
			for i, v := range l.Values {
				variable, text, at := "", v.Text, source.Extend(m.path, field, source.Index(i))
				if field == "environment" {
					variable, text, _ = strings.Cut(v.Text, "=")
				}
				for _, old := range namedIn(text, draft.ForHost(variable)) {
					to := by[old]
					switch {
					case to == nil || to.called == old:
					case strings.EqualFold(to.called, old):
						k.said(at, "names %s, which is called %s: it is found by either, as names of hosts are",
							source.Quote(old),
							to.called)
					default:
						k.lost(at, "refers to %s, which is called %s: write that", source.Quote(old), to.called)
					}
				}
			}
		}
	}
}

// namedIn are the words of a text that may be hosts: no parts of paths, no schemes, and numbers
// only in the position of a host. whole: the entire text may be one.
func namedIn(text string, whole bool) (out []string) {
	for _, m := range draft.HostName().FindAllStringIndex(text, -1) {
		word := strings.TrimRight(text[m[0]:m[1]], ".-")
		before, after := text[:m[0]], text[m[0]+len(word):]
		if strings.HasSuffix(before, "-") || strings.HasSuffix(before, ".") {
			continue
		}
		host := whole && word == text || strings.HasSuffix(before, "//") || strings.HasSuffix(before, "@") ||
			draft.PortAt(text, m[0]+len(word))
		path := strings.HasSuffix(before, "/") || strings.HasPrefix(after, "/") || strings.HasPrefix(after, "://") ||
			strings.HasPrefix(after, "=")
		if host || !path && strings.Trim(word, "0123456789") != "" {
			out = append(out, word)
		}
	}
	return out
}
