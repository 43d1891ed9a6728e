package compose

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/verge-edge/verge/internal/importer/compose/dotenv"
	"github.com/verge-edge/verge/internal/importer/compose/template"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// overrides are the files that docker compose adds to a compose file with a default name.
var overrides = []string{"compose.override.yaml", "compose.override.yml", "docker-compose.override.yml",
	"docker-compose.override.yaml"}

// besides reads what docker compose would read beside the file.
func (c *converter) besides() {
	if c.source.Open == nil {
		return
	}
	if slices.Contains(FileNames, c.source.Base()) {
		for _, name := range overrides {
			if _, err := c.source.Open(name); err == nil {
				c.report.At(report.Lost, c.doc, nil,
					"%s, which docker compose adds to it, is not read: docker compose config puts them into one", name)
			}
		}
	}
	if c.opts.Variables != nil {
		return
	}
	data, err := c.source.Open(dotenv.DotEnv)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	vars := &dotenv.Set{}
	if err == nil {
		vars, err = dotenv.Read(data, nil, template.None, c.report.Spend)
	}
	if errors.Is(err, report.ErrTooMuch) {
		c.report.SaidTooMuch = true
	}
	if err != nil {
		c.report.At(report.Refused, c.doc, nil,
			"the file %s beside it, which docker compose reads, cannot be read (%v): mend it, or name another by "+
				"--env-file FILE",
			dotenv.DotEnv, err)
		return
	}
	c.beside, c.derived, c.blank = vars.Values, vars.Derived, vars.Blank
}

// usedBeside reports which variables came from the file beside.
func (c *converter) usedBeside() {
	for _, name := range slices.Sorted(maps.Keys(c.used)) {
		if of := c.blank[name]; of != "" {
			c.report.At(report.Lost, c.doc, nil,
				"%s of %s beside it has nothing in place of ${%s}, which nothing sets there, as with docker compose",
				name, dotenv.DotEnv, of)
		}
	}
	if len(c.used) > 0 {
		c.report.At(report.Said, c.doc, nil,
			"takes %s of %s beside it, as docker compose does (--env-file FILE names another)",
			report.List(slices.Sorted(maps.Keys(c.used))), dotenv.DotEnv)
	}
}

// substituted is a text with its variables replaced.
type substituted struct {
	text string
	// hidden and unset are the variables with secret values, and those that nothing sets.
	hidden, unset []string
}

func (c *converter) substitute(s string, find template.Lookup) (out substituted, err error) {
	if !strings.Contains(s, "$") {
		return substituted{text: s}, nil
	}
	t := &template.Template{Lookup: find, Spend: c.report.Spend}
	text, err := t.Expand(s, 0)
	var needed *template.RequiredError
	if errors.As(err, &needed) && draft.Secretive(needed.Name) { // it is to be set as a secret
		t.Lookup = func(name string) (string, bool) {
			if v, set := find(name); set || !draft.Secretive(name) {
				return v, set
			}
			return hidden + name + hidden, true
		}
		text, err = t.Expand(s, 0)
	}
	if err != nil {
		return out, err
	}
	for i, part := range strings.Split(text, hidden) {
		if i%2 == 1 && !slices.Contains(out.hidden, part) {
			out.hidden = append(out.hidden, part)
		}
	}
	slices.Sort(out.hidden)
	slices.Sort(t.Unset)
	for _, name := range slices.Compact(t.Unset) {
		if !draft.Secretive(name) {
			out.unset = append(out.unset, name)
		}
	}
	out.text = text
	return out, nil
}

// shown returns the text with ${NAME} in place of hidden values.
func (s substituted) shown() string {
	var b strings.Builder
	for i, part := range strings.Split(s.text, hidden) {
		if i%2 == 1 {
			part = "${" + part + "}"
		}
		b.WriteString(part)
	}
	return b.String()
}

// interpolate returns n with ${NAME} replaced by the variables given, those beside and the
// defaults in the file, as compose-go wants it: each remaining dollar is doubled. A reference
// to a variable that nothing sets is
//   - a secret in environment, if its name says so,
//   - refused where something else would be meant by silence: a mount, an image,
//   - elsewhere: empty, as in docker compose, which is said.
func (c *converter) interpolate(n *source.Node, path []string) any {
	switch n.Kind {
	case source.Mapping:
		m := make(map[string]any, len(n.Keys))
		for i, k := range n.Keys {
			at := source.Extend(path, k.Name)
			if isEnvironment(path) {
				if v, ok := c.variable(path[1], k.Name, n.Values[i], at); ok {
					m[k.Name] = v
				}
				continue
			}
			m[k.Name] = c.interpolate(n.Values[i], at)
		}
		return m
	case source.List:
		l := make([]any, 0, len(n.Values))
		for i, v := range n.Values {
			at := source.Extend(path, source.Index(i))
			if isEnvironment(path) && v.Kind == source.Scalar {
				name, _, given := strings.Cut(v.Text, "=")
				if !given {
					v = &source.Node{Line: v.Line}
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
	s, ok := n.Value.(string)
	if !ok || !strings.Contains(s, "$") {
		return n.Value
	}
	find := c.lookup
	if isPath(path) {
		find = c.folder
	}
	v, err := c.substitute(s, find)
	switch {
	case errors.Is(err, report.ErrTooMuch):
		c.report.TooMuch(c.doc, path)
	case !matters(path):
		v.text = v.shown()
	case err != nil:
		c.report.At(report.Refused, c.doc, path, "%v", err)
	case len(v.hidden) > 0:
		v.text = c.hide(v, path)
	case len(v.unset) > 0:
		c.empty(v, path)
	}
	return strings.ReplaceAll(v.text, "$", "$$")
}

// folder is lookup for paths: PWD is the file's own folder.
func (c *converter) folder(name string) (string, bool) {
	if v, set := c.lookup(name); set || name != "PWD" {
		return v, set
	}
	return ".", true
}

// isPath says whether a field names files on the machine that runs docker compose.
func isPath(path []string) bool {
	return len(path) > 2 && (path[0] == "services" && slices.Contains([]string{"volumes", "env_file"}, path[2]) ||
		(path[0] == "configs" || path[0] == "secrets") && path[2] == "file")
}

// isEnvironment: services.*.environment.
func isEnvironment(path []string) bool {
	return len(path) == 3 && path[0] == "services" && path[2] == "environment"
}

// matters says whether the field at path is carried over unchanged.
func matters(path []string) bool {
	if len(path) < 3 || path[0] != "services" {
		return path[0] == "name" || len(path) > 2 && path[0] == "configs" && path[2] == "content"
	}
	switch path[2] {
	case "image", "command", "entrypoint", "ports", "expose", "volumes", "tmpfs", "user", "platform", "restart",
		"scale",
		"stop_signal", "stop_grace_period",
		"mem_limit", "mem_reservation", "cpus", "shm_size", "healthcheck", "pull_policy", "depends_on", "secrets",
		"configs",
		"profiles":
		return true
	case "deploy":
		return len(path) > 3 && path[3] != "labels" && path[3] != "update_config" && path[3] != "rollback_config"
	}
	return false
}

// empty notes a reference to a variable that nothing sets.
func (c *converter) empty(v substituted, path []string) {
	field := ""
	if path[0] == "services" {
		field = path[2]
	}
	_, err := reference.ParseAnyReference(v.text)
	if path[0] == "name" || slices.Contains([]string{"volumes", "tmpfs", "depends_on", "secrets", "configs"}, field) ||
		field == "image" && err != nil {
		c.report.At(report.Refused, c.doc, path, "refers to ${%s}, which nothing sets: give it by --env-file FILE",
			v.unset[0])
		return
	}
	c.report.At(report.Lost, c.doc, path,
		"has nothing in place of ${%s}, which nothing sets, as with docker compose (--env-file FILE)", v.unset[0])
}
