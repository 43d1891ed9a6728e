package importer

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// variable is an entry of environment as compose-go is to see it, false where it is
// left out; v without a value takes that of the variable of the same name.
func (c *composer) variable(service, name string, v *node, path []string) (any, bool) {
	if v.kind != scalarKind {
		return v.plain(), true // the schema has its say
	}
	s, ok := v.value.(string)
	switch {
	case v.value == nil:
		if _, set := c.lookup(name); !set && !secretive(name) {
			c.report.at(Lost, c.doc, path, "%s is left out: nothing sets ${%s} (--env-file FILE)", name, name)
			return nil, false
		}
		s = "${" + name + "}"
	case !ok:
		return v.value, true
	}
	out, err := c.substitute(s, c.lookup)
	var needed *neededError
	if errors.As(err, &needed) && secretive(name) { // it is to be set as a secret
		out, err = substituted{unset: []string{needed.name}}, nil
	}
	_, given := c.opts.Variables[name]
	switch fromFile := strings.Contains(s, "$"); {
	case errors.Is(err, errMade):
		c.report.tooMuch(c.doc, path)
		return nil, false
	case err != nil:
		c.report.at(Refused, c.doc, path, "%v", err)
		return nil, false
	case len(out.hidden) > 0, fromFile && !given && secretive(name) && (len(out.unset) > 0 || c.takesBeside(s)):
		of := name
		if len(out.hidden) > 0 {
			of = out.hidden[0]
		} else if len(out.unset) > 0 {
			of = out.unset[0]
		}
		written := strings.TrimPrefix(s, name+"=")
		if strings.TrimPrefix(out.text, name+"=") == hidden+of+hidden { // however it is written: ${X:?message}
			written = "${" + of + "}"
		}
		secret := c.secret(service, name, written, of)
		why := "as nothing sets ${" + of + "}"
		if _, set := c.beside[of]; set || len(out.hidden)+len(out.unset) == 0 {
			why = "as " + dotEnv + " has its value"
		}
		c.report.at(Said, c.doc, path, "%s becomes the secret %s, %s: verge secret set %s --from-file FILE", name, secret, why, secret)
		return nil, false
	case len(out.unset) > 0:
		c.report.at(Lost, c.doc, path, "%s has nothing in place of ${%s}, which nothing sets, as with docker compose (--env-file FILE)", name, out.unset[0])
	}
	text := strings.ReplaceAll(out.text, "$", "$$")
	if v.value == nil && strings.HasPrefix(path[len(path)-1], "[") {
		text = name + "=" + text
	}
	return text, true
}

// takesBeside says whether a text takes a variable of the file beside the compose file.
func (c *composer) takesBeside(s string) bool {
	took := false
	_, err := c.substitute(s, func(name string) (string, bool) {
		v, set := c.lookup(name)
		if _, beside := c.beside[name]; beside {
			took = true
		}
		return v[:min(len(v), 1)], set // that it is there is enough
	})
	return err == nil && took
}

// secret is the name of the secret that a variable of a service becomes. What is written
// alike is the same secret: all that have ${DB_PASSWORD}. It is called as what it is made of,
// or as the variable.
func (c *composer) secret(service, variable, written, of string) string {
	if written != "${"+of+"}" {
		of = variable
	}
	name := c.secretName(written, of)
	if c.secrets[service] == nil {
		c.secrets[service] = map[string]string{}
	}
	c.secrets[service][variable] = name
	return name
}

// secretName is the name of the secret that something becomes, which is called as what it
// is of.
func (c *composer) secretName(written, of string) string {
	name := c.secretNames[written]
	if name == "" {
		name = c.secretLabels.unique(of)
		c.secretNames[written] = name
	}
	return name
}

// envFiles are the variables that the files of a service name, before those of its
// environment. None that is called as a secret is written into a descriptor.
func (c *composer) envFiles(name string, s types.ServiceConfig, out *api.Service) {
	for i, f := range s.EnvFiles {
		at := c.path(name, "env_file", index(i))
		read, why := c.envFile(f)
		switch {
		case c.report.overspent():
			c.report.tooMuch(c.doc, at)
			return
		case why != "" && !bool(f.Required):
			c.report.at(Said, c.doc, at, "is left out, as it may be: %s", why)
			continue
		case why != "":
			c.report.at(Lost, c.doc, at, "is not carried over: %s; put its variables into environment, or make secrets of them", why)
			continue
		}
		plain := 0
		for _, k := range slices.Sorted(maps.Keys(read.values)) {
			v := read.values[k]
			if _, said := s.Environment[k]; said || c.secrets[name][k] != "" && c.fromEnvironment(name, k) {
				continue
			}
			if v != "" && (secretValue(k, v) || strings.Contains(v, hidden)) {
				written := path.Clean(f.Path) + ":" + k
				if path.Clean(f.Path) == dotEnv {
					written = "${" + k + "}"
				}
				secret := c.secret(name, k, written, k)
				delete(out.Env, k)
				c.report.at(Said, c.doc, at, "%s becomes the secret %s, as %s has its value: verge secret set %s --from-file FILE", k, secret, shownPath(f.Path), secret)
				continue
			}
			if out.Env == nil {
				out.Env = map[string]string{}
			}
			delete(c.secrets[name], k)
			out.Env[k] = literal(v)
			plain++
			if of := read.blank[k]; of != "" {
				c.report.at(Lost, c.doc, at, "%s has nothing in place of ${%s}, which nothing sets, as with docker compose", k, of)
			}
		}
		c.report.at(Said, c.doc, at, "%s of %s as it is now %s carried over", count(plain, "variable"), shownPath(f.Path), map[bool]string{true: "is", false: "are"}[plain == 1])
	}
}

// fromEnvironment says whether a variable stands in the environment of a service.
func (c *composer) fromEnvironment(service, name string) bool {
	n := c.doc.root.child("services").child(service).child("environment")
	if n.child(name) != nil {
		return true
	}
	return n != nil && n.kind == listKind && slices.ContainsFunc(n.values, func(v *node) bool { k, _, _ := strings.Cut(v.text, "="); return k == name })
}

// leastSecret is the length from which on a secret is looked for in other values: what is
// shorter (postgres) may stand there for another reason.
const leastSecret = 9

// envFile reads a file of variables; the text says why it could not. What is to be seen
// by nobody is marked in values that have it within.
func (c *composer) envFile(f types.EnvFile) (*variables, string) {
	if f.Format != "" {
		return nil, "its format is " + quote(f.Format)
	}
	data, why := c.beneath(f.Path)
	if why != "" {
		return nil, why
	}
	if !c.report.spend(len(data)) {
		return nil, errMade.Error()
	}
	read, err := readVariables(data, nil, c.lookup, c.report.spend)
	if err != nil {
		return nil, shownPath(f.Path) + ": " + err.Error()
	}
	vars := read.values
	var secrets []string
	for k, v := range vars {
		if len(v) >= leastSecret && secretive(k) {
			secrets = append(secrets, v)
		}
	}
	for k, v := range vars {
		if read.derived[k] || slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(v, s) }) {
			vars[k] = v + hidden
		}
	}
	return read, ""
}

func shownPath(file string) string { return strings.Trim(quote(file), `"`) }

// environment is that of a service. PORT and VERGE_… are Verge's own.
func (c *composer) environment(name string, s types.ServiceConfig, out *api.Service) {
	c.envFiles(name, s, out)
	for _, k := range slices.Sorted(maps.Keys(s.Environment)) {
		v := s.Environment[k]
		if v == nil {
			continue // noted already
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[k] = literal(*v)
		if secretValue(k, *v) && *v != "" {
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
