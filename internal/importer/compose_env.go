package importer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// interpolate is n with ${NAME} replaced by the variables given and by the defaults in
// the file, as compose-go wants it: each dollar that is left is doubled. What refers to
// a variable that nothing sets is
//   - in environment: a secret if its name says so, else left out,
//   - where it matters otherwise: refused,
//   - elsewhere: empty, as in docker compose.
func (c *composer) interpolate(n *node, path []string) any {
	switch n.kind {
	case mappingKind:
		m := make(map[string]any, len(n.keys))
		for i, k := range n.keys {
			at := extend(path, k.name)
			if isEnvironment(path) {
				if v, ok := c.variable(path[1], k.name, n.values[i], at); ok {
					m[k.name] = v
				}
				continue
			}
			m[k.name] = c.interpolate(n.values[i], at)
		}
		return m
	case listKind:
		l := make([]any, 0, len(n.values))
		for i, v := range n.values {
			at := extend(path, index(i))
			if isEnvironment(path) && v.kind == scalarKind {
				name, _, given := strings.Cut(v.text, "=")
				if !given {
					v = &node{line: v.line}
				}
				if value, ok := c.variable(path[1], name, v, at); ok {
					l = append(l, value)
				}
				continue
			}
			l = append(l, c.interpolate(v, at))
		}
		return l
	}
	s, ok := n.value.(string)
	if !ok || !strings.Contains(s, "$") {
		return n.value
	}
	out, unset, err := c.substitute(s)
	switch {
	case err != nil:
		c.report.at(Refused, c.doc, path, "%v", err)
	case len(unset) > 0 && matters(path):
		c.report.at(Refused, c.doc, path, "refers to ${%s}, which nothing sets: give it by --env-file FILE", unset[0])
	}
	return strings.ReplaceAll(out, "$", "$$")
}

// isEnvironment: services.*.environment.
func isEnvironment(path []string) bool {
	return len(path) == 3 && path[0] == "services" && path[2] == "environment"
}

// matters says whether the field at path is carried over as it is.
func matters(path []string) bool {
	if len(path) < 3 || path[0] != "services" {
		return path[0] == "name" || len(path) > 2 && path[0] == "configs" && path[2] == "content"
	}
	switch path[2] {
	case "image", "command", "entrypoint", "ports", "expose", "volumes", "tmpfs", "user", "platform", "restart", "scale", "stop_signal", "stop_grace_period",
		"mem_limit", "mem_reservation", "cpus", "healthcheck", "pull_policy", "depends_on", "secrets", "configs":
		return true
	case "deploy":
		return len(path) > 3 && path[3] != "labels" && path[3] != "update_config" && path[3] != "rollback_config"
	}
	return false
}

// variable is an entry of environment as compose-go is to see it, false where it is
// left out; v without a value takes that of the variable of the same name.
func (c *composer) variable(service, name string, v *node, path []string) (any, bool) {
	if v.kind != scalarKind {
		return v.plain(), true // the schema has its say
	}
	list := strings.HasPrefix(path[len(path)-1], "[")
	if v.value == nil && v.text == "" || v.value == nil {
		value, set := c.opts.Variables[name]
		if !set {
			c.unset(service, name, []string{name}, path)
			return nil, false
		}
		if value = strings.ReplaceAll(value, "$", "$$"); list {
			return name + "=" + value, true
		}
		return value, true
	}
	s, ok := v.value.(string)
	if !ok {
		return v.value, true
	}
	out, unset, err := c.substitute(s)
	if err != nil {
		c.report.at(Refused, c.doc, path, "is no text with ${variables}: write a dollar as $$")
		return nil, false
	}
	if len(unset) > 0 {
		c.unset(service, name, unset, path)
		return nil, false
	}
	return strings.ReplaceAll(out, "$", "$$"), true
}

// unset is a variable of a service whose value is not known.
func (c *composer) unset(service, name string, unset, path []string) {
	if !secretive(name) && !slices.ContainsFunc(unset, secretive) {
		c.report.at(Lost, c.doc, path, "%s is left out: nothing sets ${%s} (--env-file)", name, unset[0])
		return
	}
	if c.secrets[service] == nil {
		c.secrets[service] = map[string]string{}
	}
	secret := label(name)
	c.secrets[service][name] = secret
	c.report.at(Said, c.doc, path, "%s becomes the secret %s, as nothing sets ${%s}: verge secret set %s --from-file FILE", name, secret, unset[0], secret)
}

// substitute replaces the variables in s, and names those without value and default.
func (c *composer) substitute(s string) (out string, unset []string, err error) {
	for name := range template.ExtractVariables(map[string]any{"x": s}, nil) {
		if _, set := c.opts.Variables[name]; name != "" && !set && bare(s, name) {
			unset = append(unset, name)
		}
	}
	slices.Sort(unset)
	if len(unset) > 0 {
		// Also ${NAME:?message}, which is an error to compose-go.
		return "", unset, nil
	}
	out, err = template.SubstituteWithOptions(s, func(name string) (string, bool) { v, ok := c.opts.Variables[name]; return v, ok }, template.WithoutLogging)
	if err != nil {
		return "", nil, fmt.Errorf("is no text with ${variables}: write a dollar as $$")
	}
	return out, nil, nil
}

// bare says whether s has name without a default: $NAME, ${NAME}, ${NAME:?…}.
func bare(s, name string) bool {
	return regexp.MustCompile(`(^|[^$])(\$\$)*(\$` + name + `([^A-Za-z0-9_]|$)|\$\{` + name + `(\}|:?\?))`).MatchString(s)
}

// environment is that of a service. PORT and VERGE_… are Verge's own.
func (c *composer) environment(name string, s types.ServiceConfig, out *api.Service) {
	for _, k := range slices.Sorted(maps.Keys(s.Environment)) {
		v := s.Environment[k]
		if v == nil {
			continue // noted already
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[k] = literal(*v)
		if secretive(k) && *v != "" {
			c.said(name, k+" stays in the descriptor as it is: env_secrets would keep it out", c.envPath(name, k)...)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.secrets[name])) {
		if _, both := out.Env[k]; both {
			continue
		}
		if out.EnvSecrets == nil {
			out.EnvSecrets = map[string]string{}
		}
		out.EnvSecrets[k] = c.secrets[name][k]
	}
	validEnv(c.report, c.doc, out, func(k string) []string { return c.path(name, c.envPath(name, k)...) })
}

// envPath is where a variable of a service stands.
func (c *composer) envPath(service, name string) []string {
	n := c.doc.root.child("services").child(service).child("environment")
	if n != nil && n.kind == listKind {
		for i, v := range n.values {
			if k, _, _ := strings.Cut(v.text, "="); k == name {
				return []string{"environment", index(i)}
			}
		}
	}
	return []string{"environment", name}
}

// variableName is that of api: what an environment can have.
var variableName = pattern.Lazy(`^[!-<>-~]+$`)

// validEnv takes out the variables whose names Verge does not have; PORT is left for
// portVariables.
func validEnv(r *report, d *doc, s *api.Service, at func(string) []string) {
	drop := func(k string) {
		delete(s.Env, k)
		delete(s.EnvSecrets, k)
	}
	for _, k := range slices.Concat(slices.Sorted(maps.Keys(s.Env)), slices.Sorted(maps.Keys(s.EnvSecrets))) {
		switch {
		case !variableName().MatchString(k):
			r.at(Lost, d, at(k), "%s is left out: the name of a variable has characters that can be seen, without =", quote(k))
			drop(k)
		case strings.HasPrefix(k, "VERGE_"):
			r.at(Lost, d, at(k), "%s is left out: variables that begin with VERGE_ are set by Verge", k)
			drop(k)
		}
	}
}
