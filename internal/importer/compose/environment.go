package compose

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/compose/dotenv"
	"github.com/verge-edge/verge/internal/importer/compose/template"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// variable returns an entry of environment for compose-go, false if it is left out. A v without
// value takes that of the variable of the same name.
func (c *converter) variable(service, name string, v *source.Node, path []string) (any, bool) {
	if v.Kind != source.Scalar {
		return v.Plain(), true // the schema checks it
	}
	s, ok := v.Value.(string)
	switch {
	case v.Value == nil:
		if _, set := c.lookup(name); !set && !draft.Secretive(name) {
			c.report.At(report.Lost, c.doc, path, "%s is left out: nothing sets ${%s} (--env-file FILE)", name, name)
			return nil, false
		}
		s = "${" + name + "}"
	case !ok:
		return v.Value, true
	}
	out, err := c.substitute(s, c.lookup)
	var needed *template.RequiredError
	if errors.As(err, &needed) && draft.Secretive(name) { // it is to be set as a secret
		out, err = substituted{unset: []string{needed.Name}}, nil
	}
	_, given := c.opts.Variables[name]
	switch fromFile := strings.Contains(s, "$"); {
	case errors.Is(err, report.ErrTooMuch):
		c.report.TooMuch(c.doc, path)
		return nil, false
	case err != nil:
		c.report.At(report.Refused, c.doc, path, "%v", err)
		return nil, false
	case len(out.hidden) > 0, fromFile && !given && draft.Secretive(name) && (len(out.unset) > 0 || c.takesBeside(s)):
		of := name
		if len(out.hidden) > 0 {
			of = out.hidden[0]
		} else if len(out.unset) > 0 {
			of = out.unset[0]
		}
		written := strings.TrimPrefix(s, name+"=")
		if strings.TrimPrefix(out.text, name+"=") == hidden+of+hidden { // in any form, such as ${X:?message}
			written = "${" + of + "}"
		}
		secret := c.secret(service, name, written, of)
		why := "as nothing sets ${" + of + "}"
		if _, set := c.beside[of]; set || len(out.hidden)+len(out.unset) == 0 {
			why = "as " + dotenv.DotEnv + " has its value"
		}
		c.report.At(report.Said, c.doc, path, "%s becomes the secret %s, %s: verge secret set %s --from-file FILE",
			name,
			secret, why, secret)
		return nil, false
	case len(out.unset) > 0:
		c.report.At(report.Lost, c.doc, path,
			"%s has nothing in place of ${%s}, which nothing sets, as with docker compose (--env-file FILE)", name,
			out.unset[0])
	}
	text := strings.ReplaceAll(out.text, "$", "$$")
	if v.Value == nil && strings.HasPrefix(path[len(path)-1], "[") {
		text = name + "=" + text
	}
	return text, true
}

// takesBeside says whether a text uses a variable of the file beside the compose file.
func (c *converter) takesBeside(s string) bool {
	took := false
	_, err := c.substitute(s, func(name string) (string, bool) {
		v, set := c.lookup(name)
		if _, beside := c.beside[name]; beside {
			took = true
		}
		return v[:min(len(v), 1)], set // only its presence matters
	})
	return err == nil && took
}

// envFiles adds the variables of a service's env_file entries, before those of its environment.
// None with the name of a secret is written into a descriptor.
func (c *converter) envFiles(name string, s types.ServiceConfig, out *api.Service) {
	for i, f := range s.EnvFiles {
		at := c.path(name, "env_file", source.Index(i))
		read, why := c.envFile(f)
		switch {
		case c.report.Overspent():
			c.report.TooMuch(c.doc, at)
			return
		case why != "" && !bool(f.Required):
			c.report.At(report.Said, c.doc, at, "is left out, as it may be: %s", why)
			continue
		case why != "":
			c.report.At(report.Lost, c.doc, at,
				"is not carried over: %s; put its variables into environment, or make secrets of them", why)
			continue
		}
		plain := 0
		for _, k := range slices.Sorted(maps.Keys(read.Values)) {
			v := read.Values[k]
			if _, said := s.Environment[k]; said || c.secrets[name][k] != "" && c.fromEnvironment(name, k) {
				continue
			}
			if v != "" && (draft.SecretValue(k, v) || strings.Contains(v, hidden)) {
				written := path.Clean(f.Path) + ":" + k
				if path.Clean(f.Path) == dotenv.DotEnv {
					written = "${" + k + "}"
				}
				secret := c.secret(name, k, written, k)
				delete(out.Env, k)
				c.report.At(report.Said, c.doc, at,
					"%s becomes the secret %s, as %s has its value: verge secret set %s --from-file FILE", k, secret,
					shownPath(f.Path), secret)
				continue
			}
			if out.Env == nil {
				out.Env = map[string]string{}
			}
			delete(c.secrets[name], k)
			out.Env[k] = draft.Literal(v)
			plain++
			if of := read.Blank[k]; of != "" {
				c.report.At(report.Lost, c.doc, at,
					"%s has nothing in place of ${%s}, which nothing sets, as with docker compose",
					k, of)
			}
		}
		c.report.At(report.Said, c.doc, at, "%s of %s as it is now %s carried over", report.Count(plain, "variable"),
			shownPath(f.Path), map[bool]string{true: "is", false: "are"}[plain == 1])
	}
}

// fromEnvironment says whether a variable is in the environment of a service.
func (c *converter) fromEnvironment(service, name string) bool {
	n := c.doc.Root.Child("services").Child(service).Child("environment")
	if n.Child(name) != nil {
		return true
	}
	return n != nil && n.Kind == source.List &&
		slices.ContainsFunc(n.Values,
			func(v *source.Node) bool { k, _, _ := strings.Cut(v.Text, "="); return k == name })
}

// leastSecret is the minimum length of a secret that is looked for in other values. Shorter
// ones (postgres) may be there for another reason.
const leastSecret = 9

// envFile reads a file of variables; the text says why it could not. Secrets within values are
// marked.
func (c *converter) envFile(f types.EnvFile) (*dotenv.Set, string) {
	if f.Format != "" {
		return nil, "its format is " + source.Quote(f.Format)
	}
	data, why := c.beneath(f.Path)
	if why != "" {
		return nil, why
	}
	if !c.report.Spend(len(data)) {
		return nil, report.ErrTooMuch.Error()
	}
	read, err := dotenv.Read(data, nil, c.lookup, c.report.Spend)
	if err != nil {
		return nil, shownPath(f.Path) + ": " + err.Error()
	}
	vars := read.Values
	var secrets []string
	for k, v := range vars {
		if len(v) >= leastSecret && draft.Secretive(k) {
			secrets = append(secrets, v)
		}
	}
	for k, v := range vars {
		if read.Derived[k] || slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(v, s) }) {
			vars[k] = v + hidden
		}
	}
	return read, ""
}

func shownPath(file string) string { return strings.Trim(source.Quote(file), `"`) }

// environment converts the environment of a service. PORT and VERGE_… are Verge's own.
func (c *converter) environment(name string, s types.ServiceConfig, out *api.Service) {
	c.envFiles(name, s, out)
	for _, k := range slices.Sorted(maps.Keys(s.Environment)) {
		v := s.Environment[k]
		if v == nil {
			continue // noted already
		}
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[k] = draft.Literal(*v)
		if draft.SecretValue(k, *v) && *v != "" {
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
	draft.ValidEnv(c.report, c.doc, out, func(k string) []string { return c.path(name, c.envPath(name, k)...) })
}

// envPath returns where a variable of a service is.
func (c *converter) envPath(service, name string) []string {
	n := c.doc.Root.Child("services").Child(service).Child("environment")
	if n != nil && n.Kind == source.List {
		for i, v := range n.Values {
			if k, _, _ := strings.Cut(v.Text, "="); k == name {
				return []string{"environment", source.Index(i)}
			}
		}
	}
	return []string{"environment", name}
}
