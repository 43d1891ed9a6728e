package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

// addresses finds the addresses that differ in Verge: by the name, or by the port, which is the
// one that the program listens on.
func (g *group) addresses() {
	g.called = map[string]string{}
	for _, s := range g.services {
		if s.to == nil || s.spec.ClusterIP == "None" { // headless: its name leads to the pods themselves
			continue
		}
		for _, p := range s.spec.Ports {
			target := targetOf(p)
			to, number := s.to.containers[0], int(target.IntVal)
			for _, c := range s.to.containers {
				if n, ok := c.port(target); ok {
					to, number = c, n
					break
				}
			}
			if from, now := fmt.Sprintf("%s:%d", s.object.Meta.Name, p.Port),
				fmt.Sprintf("%s:%d", to.name, number); number > 0 && from != now {
				g.called[from] = now
			}
		}
	}
}

// address is a name with a port or a scheme: web:80, http://web.
var address = pattern.Lazy(`(https?://)?\b([a-z0-9][-a-z0-9]*)(:[0-9]{1,5})?`)

// addressed replaces addresses of Services that include the port by those of Verge.
func (g *group) addressed(w *workload, at []string, text string) string {
	var b strings.Builder
	done := 0
	if !strings.Contains(text, ":") {
		return text
	}
	for _, m := range address().FindAllStringSubmatchIndex(text, -1) {
		if from := m[0]; from > 0 && (inName(text[from-1]) || text[from-1] == '.') || m[1] < len(text) &&
			(inName(text[m[1]]) || text[m[1]] == '.') {
			continue
		}
		name, port := text[m[4]:m[5]], ""
		switch {
		case m[6] >= 0:
			port = text[m[6]:m[7]]
		case m[2] >= 0 && m[3]-m[2] == len("https://"):
			port = ":443"
		case m[2] >= 0:
			port = ":80"
		}
		if to := g.called[name+port]; port != "" && to != "" {
			b.WriteString(text[done:m[4]] + to)
			done = m[1]
			g.said(w.object, at, "%s is called %s", name+port, to)
		}
	}
	return b.String() + text[done:]
}

// clusterName matches the full name of a Service, with or without a pod of a StatefulSet before
// it: db-0.db.default.svc.cluster.local. Several pods may be written as in minio: db-{0...3}.
var clusterName = pattern.Lazy(
	`(?:([a-z0-9][-a-z0-9]*(?:\{[0-9]+\.{2,3}[0-9]+\})?)\.)?([a-z0-9][-a-z0-9]*)\.([a-z0-9][-a-z0-9]*)\.svc(?:\.cluster\.local)?\b\.?`)

// clusterNames replaces full names of Services. Most texts have none, which a search finds out
// faster than the expression.
func clusterNames(text string, by func(string) string) string {
	if !strings.Contains(text, ".svc") {
		return text
	}
	return clusterName().ReplaceAllStringFunc(text, by)
}

// names replaces the names of Services in a text by those of Verge where they are written in
// full, and notes unknown ones.
func (g *group) names(w *workload, at []string, text string) string {
	text = clusterNames(text, func(all string) string {
		m := clusterName().FindStringSubmatch(all)
		pod, to, ns := m[1], g.known[m[2]], m[3]
		if !g.namespaces[ns] || to == "" {
			g.lost(w.object, at, "refers to %s, which is not a service of this application", source.Quote(all))
			return all
		}
		if pod == "" {
			g.said(w.object, at, "%s is called %s", all, to)
			return to
		}
		_, number := podNumber(pod)
		if number == "" {
			g.lost(w.object, at, "refers to %s, which nothing is called in Verge", source.Quote(all))
			return all
		}
		name := number + ".instance." + to
		g.said(w.object, at, "%s is called %s", all, name)
		return name
	})
	text = g.addressed(w, at, g.dotted(w, at, text))
	for _, old := range slices.Sorted(maps.Keys(g.known)) {
		if now := g.known[old]; now != old && mentions(text, old) {
			g.lost(w.object, at, "refers to %s, which is called %s", source.Quote(old), now)
		}
	}
	return text
}

// podNumber splits the name of a pod of a StatefulSet into that of the set and a number, or
// several in braces; "" if it is no such name.
func podNumber(pod string) (set, number string) {
	i := strings.LastIndexByte(pod, '-')
	if i < 0 {
		return pod, ""
	}
	number = pod[i+1:]
	if n, err := strconv.Atoi(number); err == nil {
		number = strconv.Itoa(n)
	} else if !strings.HasPrefix(number, "{") {
		number = ""
	}
	return pod[:i], number
}

// dottedName matches possible short names of Services: db.shop, db-0.db.
var dottedName = pattern.Lazy(`[a-z0-9][-a-z0-9]*(?:\{[0-9]+\.{2,3}[0-9]+\})?(?:\.[a-z0-9][-a-z0-9]*)+`)

// dotted replaces short names of Services by those of Verge: with their namespace, or after one
// of their pods.
func (g *group) dotted(w *workload, at []string, text string) string {
	var b strings.Builder
	done := 0
	if !strings.Contains(text, ".") {
		return text
	}
	for _, m := range dottedName().FindAllStringIndex(text, -1) {
		if from := m[0]; from > 0 && (inName(text[from-1]) || text[from-1] == '.' || text[from-1] == '/' &&
			(from < 2 || text[from-2] != '/')) ||
			m[1] < len(text) && (inName(text[m[1]]) || text[m[1]] == '.' || text[m[1]] == '=') {
			continue
		}
		all := text[m[0]:m[1]]
		first := strings.IndexByte(all, '.')
		if brace := strings.IndexByte(all, '}'); brace > 0 {
			first = brace + 1
		}
		labels := append([]string{all[:first]}, strings.Split(all[first+1:], ".")...)
		name := ""
		set, number := podNumber(labels[0])
		switch own := g.namespaces[labels[len(labels)-1]]; {
		case len(labels) == 2 && own:
			name = g.known[labels[0]]
		case number != "" && (len(labels) == 2 || len(labels) == 3 && own) && g.statefulSet(set) && g.known[labels[1]] != "":
			name = number + ".instance." + g.known[labels[1]]
		}
		if name != "" {
			b.WriteString(text[done:m[0]] + name)
			done = m[1]
			g.said(w.object, at, "%s is called %s", all, name)
		}
	}
	return b.String() + text[done:]
}

// statefulSet says whether there is a StatefulSet of this name.
func (g *group) statefulSet(name string) bool {
	return slices.ContainsFunc(g.workloads,
		func(w *workload) bool { return w.object.Kind == "StatefulSet" && w.object.Meta.Name == name })
}

// mentions says whether a text contains a name as a word without a port.
func mentions(text, name string) bool {
	for i := 0; ; {
		j := strings.Index(text[i:], name)
		if j < 0 {
			return false
		}
		from, to := i+j, i+j+len(name)
		path := from > 0 && text[from-1] == '/' && (from == 1 || text[from-2] != '/') || to+1 < len(text) &&
			text[to] == '.' && inName(text[to+1])
		if !path && (from == 0 || !inName(text[from-1])) &&
			(to == len(text) || !inName(text[to]) && !draft.PortAt(text, to)) {
			return true
		}
		i = from + 1
	}
}

func inName(b byte) bool {
	return b == '-' || b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}
