package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// nicknames records the names by which services reach each other with Docker: their own, those
// of their containers, and their aliases in networks and links.
func (c *converter) nicknames(services []string) {
	for _, name := range services {
		c.called[name] = name
	}
	add := func(nickname, service string) {
		if _, taken := c.called[nickname]; nickname != "" && !taken && c.names[service] != "" {
			c.called[nickname] = service
		}
	}
	for _, name := range services {
		s := c.project.Services[name]
		add(s.ContainerName, name)
		add(s.Hostname, name)
		for _, n := range slices.Sorted(maps.Keys(s.Networks)) {
			if net := s.Networks[n]; net != nil {
				for _, alias := range net.Aliases {
					add(alias, name)
				}
			}
		}
		for _, l := range s.Links {
			if target, alias, ok := strings.Cut(l, ":"); ok {
				add(alias, target)
			}
		}
	}
}

// relations converts what relates services to each other besides their names.
func (c *converter) relations(name string, s types.ServiceConfig) {
	for _, dep := range slices.Sorted(maps.Keys(s.DependsOn)) {
		path := c.path(name, "depends_on", dep)
		if n := c.doc.Root.Child("services").Child(name).Child("depends_on"); n != nil && n.Kind == source.List {
			path = path[:3]
			for i, v := range n.Values {
				if v.Text == dep {
					path = c.path(name, "depends_on", source.Index(i))
				}
			}
		}
		c.report.At(report.Lost, c.doc, path,
			"the order of starting is not carried over: services start at once, and %s has to try again until %s "+
				"is ready", name,
			dep)
		if s.DependsOn[dep].Condition != types.ServiceConditionCompletedSuccessfully {
			c.wants(name, dep)
		}
	}
	for i, l := range s.Links {
		of, _, _ := strings.Cut(l, ":")
		c.wants(name, of)
		if target, alias, ok := strings.Cut(l, ":"); ok && alias != target {
			c.lost(name, "the name "+source.Quote(alias)+" is not carried over: it is reached as "+
				source.Quote(c.names[target]),
				"links", source.Index(i))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.Networks)) {
		if net := s.Networks[n]; net != nil {
			if len(net.Aliases) > 0 {
				c.lost(name, "are not carried over: it is reached as "+source.Quote(c.names[name]), "networks", n,
					"aliases")
			}
			if net.Ipv4Address != "" || net.Ipv6Address != "" {
				c.lost(name, "a fixed address is not carried over: it is reached by its name", "networks", n)
			}
		}
	}
	if s.NetworkMode != "" && s.NetworkMode != "bridge" {
		c.lost(name, "is not carried over: an instance has a network of its own where its worker has the service "+
			"network",
			"network_mode")
	}
	for field, host := range map[string]string{"hostname": s.Hostname, "container_name": s.ContainerName} {
		if host != "" && host != c.names[name] {
			c.lost(name, "is not carried over: others reach it as "+source.Quote(c.names[name]), field)
		}
	}
}

// hostRE finds what may be a host in an address: after // or @, or before a port.
var hostRE = pattern.Lazy(`(?://|@)([-\w.]+)|([-\w.]+):\d`)

// hosts returns the possible hosts in a variable: in addresses, or if its name says that it is
// one.
func hosts(variable, value string) (out []string) {
	for _, m := range hostRE().FindAllStringSubmatch(value, 100) {
		out = append(out, m[1]+m[2])
	}
	if draft.ForHost(variable) {
		out = append(out, value)
	}
	return out
}

// wants records that a service reaches another.
func (c *converter) wants(name, other string) {
	other = c.called[other]
	if p, ok := c.project.Services[other]; ok && len(p.Ports)+len(p.Expose) == 0 &&
		!slices.Contains(c.wanted[other], name) {
		c.wanted[other] = append(c.wanted[other], name)
	}
}

// reached gives services the ports by which others address them.
func (c *converter) reached() {
	for _, name := range slices.Sorted(maps.Keys(c.project.Services)) {
		s := c.project.Services[name]
		texts := slices.Concat([]string(s.Entrypoint), []string(s.Command))
		for _, k := range slices.Sorted(maps.Keys(s.Environment)) {
			v := s.Environment[k]
			if v == nil {
				continue
			}
			texts = append(texts, *v)
			if of, is := strings.CutSuffix(k, "HOST"); is { // DB_HOST: db, DB_PORT: "5432"
				if port := s.Environment[of+"PORT"]; port != nil {
					texts = append(texts, "//"+*v+":"+*port)
				}
			}
		}
		for _, a := range draft.Addresses(texts...) {
			host := c.called[a.Host]
			if to := c.app.Services[c.names[host]]; host != name && to != nil && to.Job == nil &&
				draft.Reach(to, a.Port) {
				c.said(host, fmt.Sprintf("gets the port %d over TCP, as %s names %s", a.Port, name, a))
			}
		}
	}
}

// portless notes the services that others reach and that have no ports in Verge: with Docker
// all ports of a container can be reached, declared or not.
func (c *converter) portless() {
	for name, s := range c.project.Services {
		for k, v := range s.Environment {
			if v == nil {
				continue
			}
			for _, other := range hosts(k, *v) {
				if c.called[other] != name {
					c.wants(name, other)
				}
			}
		}
	}
	for _, by := range c.wanted {
		slices.Sort(by)
	}
	for _, other := range slices.Sorted(maps.Keys(c.wanted)) {
		to := c.app.Services[c.names[other]]
		if len(to.Ports) > 0 {
			continue
		}
		if number, image := draft.KnownPort(to.Image); number > 0 && to.Job == nil && draft.Reach(to, number) {
			c.said(other, fmt.Sprintf("gets the port %d over TCP for %s: images called %s listen there", number,
				report.List(c.wanted[other]), image))
		} else {
			c.report.At(report.Lost, c.doc, c.path(other),
				"has no ports, so that %s cannot reach it: add those that its image listens on (ports: [{name: "+
					"tcp, number: N}])",
				report.List(c.wanted[other]))
		}
	}
}

// readdress replaces Docker's names of a service by its name in Verge where a text has them as
// a host: in an address, before a port, or alone in a variable for one. Other occurrences are
// noted.
func (c *converter) readdress() {
	for _, name := range slices.Sorted(maps.Keys(c.project.Services)) {
		s := c.app.Services[c.names[name]]
		for _, k := range slices.Sorted(maps.Keys(s.Env)) {
			s.Env[k] = c.addressed(name, s.Env[k], k+" ", draft.ForHost(k), c.envPath(name, k))
		}
		for i := range s.Command {
			s.Command[i] = c.addressed(name, s.Command[i], "", false, []string{"command"})
		}
		for i := range s.Args {
			s.Args[i] = c.addressed(name, s.Args[i], "", false, []string{"command"})
		}
	}
}

// addressed returns a text with its hosts replaced by their names in Verge; whole: all of it
// may be a host.
func (c *converter) addressed(service, text, what string, whole bool, at []string) string {
	var b strings.Builder
	done := 0
	for _, m := range draft.HostName().FindAllStringIndex(text, -1) {
		old := strings.TrimRight(text[m[0]:m[1]], ".-")
		to := c.called[old]
		now := c.names[to]
		if to == "" || now == old || m[0] > 0 && (text[m[0]-1] == '-' || text[m[0]-1] == '.') {
			continue
		}
		before, after := text[:m[0]], text[m[0]+len(old):]
		host := whole && old == text || strings.HasSuffix(before, "//") || strings.HasSuffix(before, "@") ||
			draft.PortAt(text, m[0]+len(old))
		switch {
		case host:
			b.WriteString(text[done:m[0]] + now)
			done = m[0] + len(old)
			c.said(service, what+"names "+source.Quote(old)+", which is called "+now, at...)
		case strings.HasSuffix(before, "/") || strings.HasPrefix(after, "/") || strings.HasPrefix(after, "://") ||
			strings.HasPrefix(after, "="):
		default:
			c.lost(service, what+"refers to "+source.Quote(old)+", which is called "+now, at...)
		}
	}
	return b.String() + text[done:]
}

// begin notes the initial content of volumes.
func (c *converter) begin() {
	kept := func(name string) bool { return c.app.Services[name].Pins() }
	if slices.ContainsFunc(slices.Sorted(maps.Keys(c.app.Services)), kept) {
		c.report.At(report.Said, c.doc, []string{"volumes"},
			"begin empty: what Docker keeps in them stays there, and what an image has at their place is not "+
				"copied into them")
	}
}
