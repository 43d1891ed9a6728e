package importer

import (
	"fmt"
	"strconv"
	"strings"
)

// oakestraNames are the applications of all descriptors of a command: Oakestra tells them
// apart by name and namespace, and by the case of letters, Verge by the name alone.
type oakestraNames struct {
	given names
	// known are the places of applications, by name and namespace as they are written.
	known map[string]string
	// addresses are the places of services, by the address that is fixed for them.
	addresses map[string]string
}

// head is what an application is called.
type head struct {
	node            *node
	path            []string
	name, namespace string // as they are written
	called          string // in Verge
}

// heads are the applications that have a name, each another one. What has none is refused.
func (k *oakestra) heads(list []*node) (out []*head) {
	for i, a := range list {
		path := []string{"applications", index(i)}
		if a.kind != mappingKind {
			k.refuse(path, "is no application")
			continue
		}
		h := &head{node: a, path: path}
		var ok bool
		if h.name, ok = k.name(a, "application_name", path); !ok {
			continue
		}
		if a.child("application_namespace") != nil {
			if h.namespace, ok = k.name(a, "application_namespace", path); !ok {
				continue
			}
		}
		full := h.name + "." + h.namespace
		if other := k.known.known[full]; other != "" {
			k.refuse(extend(path, "application_name"), "the application %s of this namespace is there already, in %s: Oakestra takes one of a name; give this one another", quote(h.name), other)
			continue
		}
		file, line := k.doc.placeOf(path)
		k.known.known[full] = fmt.Sprintf("%s:%d", file, line)
		out = append(out, h)
	}
	var said []string
	for _, h := range out {
		said = append(said, h.name)
	}
	for i, called := range k.known.given.all(said) {
		out[i].called = called
	}
	return out
}

// name is one as Oakestra has it: 1 to 30 letters and digits.
func (k *oakestra) name(n *node, field string, path []string) (string, bool) {
	v := n.child(field)
	s, isText := "", false
	if v != nil {
		s, isText = v.value.(string)
	}
	if !isText || s == "" || len(s) > 30 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		if v == nil || v.value == nil {
			k.refuse(path, "has no %s", field)
		} else {
			k.refuse(extend(path, field), "%s is not a name of Oakestra: that has 1 to 30 letters and digits", quote(v.text))
		}
		return "", false
	}
	return s, true
}

// microservice is one of an application.
type microservice struct {
	node            *node
	path            []string
	name, namespace string // as they are written
	called          string // in Verge
}

// full is the name as which Oakestra knows it in its application.
func (m *microservice) full() string { return m.name + "." + m.namespace }

// microservices are those of a list, nil where one has no name of its own. All names come first:
// services refer to each other.
func (k *oakestra) microservices(list *node, path []string, of string) (out []*microservice) {
	known := map[string]bool{}
	var said []string
	for i, s := range list.values {
		m := &microservice{node: s, path: extend(path, index(i))}
		if s.kind != mappingKind {
			k.refuse(m.path, "is no microservice")
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
			k.refuse(extend(m.path, "microservice_name"), "%s is the name of another microservice too", quote(m.name))
			return nil
		}
		known[m.full()] = true
		out, said = append(out, m), append(said, m.name)
	}
	given := names{}
	for i, called := range given.all(said) {
		m := out[i]
		if m.called = called; called != m.name {
			k.said(extend(m.path, "microservice_name"), "is called %s: others find it by that name", called)
		}
	}
	return out
}

// idsOf are the names of Verge by what connectivity may call a microservice. An id counts where
// no name does.
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
		add(m.node.str("microserviceID"), m.called)
		add(strconv.Itoa(i+1), m.called)
	}
	return ids
}

// microserviceNamespace is that of a microservice, which has the rules of names.
func (k *oakestra) microserviceNamespace(s *node, path []string, of string) (string, bool) {
	if s.child("microservice_namespace").empty() {
		return "", true
	}
	ns, ok := k.name(s, "microservice_namespace", path)
	if ok && of != "" && label(ns) != of {
		k.lost(extend(path, "microservice_namespace"), "is not carried over: all services of an application are in its namespace, %s", of)
	}
	return ns, ok
}

// namedHostPort is an address and the microservice that names it.
type namedHostPort struct {
	hostPort
	by string
}

// named are the addresses in commands and environments of microservices.
func named(list *node) map[string][]namedHostPort {
	out := map[string][]namedHostPort{}
	for _, s := range list.values {
		var texts []string
		for _, field := range textFields {
			if l := s.child(field); l != nil && l.kind == listKind {
				for _, v := range l.values {
					texts = append(texts, v.text)
				}
			}
		}
		for _, a := range addresses(texts...) {
			out[a.host] = append(out[a.host], namedHostPort{a, s.str("microservice_name")})
		}
	}
	return out
}

// textFields are those of a microservice in which others may be named.
var textFields = []string{"cmd", "environment"}

// oldNames notes where microservices name each other as Oakestra does, and Verge does not.
func (k *oakestra) oldNames(h *head, list []*microservice) {
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
			l := m.node.child(field)
			if l == nil {
				continue
			}
			for i, v := range l.values {
				variable, text, at := "", v.text, extend(m.path, field, index(i))
				if field == "environment" {
					variable, text, _ = strings.Cut(v.text, "=")
				}
				for _, old := range namedIn(text, forHost(variable)) {
					to := by[old]
					switch {
					case to == nil || to.called == old:
					case strings.EqualFold(to.called, old):
						k.said(at, "names %s, which is called %s: it is found by either, as names of hosts are", quote(old), to.called)
					default:
						k.lost(at, "refers to %s, which is called %s: write that", quote(old), to.called)
					}
				}
			}
		}
	}
}

// namedIn are the words of a text that may be hosts: not parts of paths, no schemes, and numbers
// only where a host stands. whole says that all of it may be one.
func namedIn(text string, whole bool) (out []string) {
	for _, m := range hostName().FindAllStringIndex(text, -1) {
		word := strings.TrimRight(text[m[0]:m[1]], ".-")
		before, after := text[:m[0]], text[m[0]+len(word):]
		if strings.HasSuffix(before, "-") || strings.HasSuffix(before, ".") {
			continue
		}
		host := whole && word == text || strings.HasSuffix(before, "//") || strings.HasSuffix(before, "@") || portAt(text, m[0]+len(word))
		path := strings.HasSuffix(before, "/") || strings.HasPrefix(after, "/") || strings.HasPrefix(after, "://") || strings.HasPrefix(after, "=")
		if host || !path && strings.Trim(word, "0123456789") != "" {
			out = append(out, word)
		}
	}
	return out
}
