package importer

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"
)

// dotEnv is the file of variables that docker compose reads beside a compose file.
const dotEnv = ".env"

// overrides are the files that docker compose adds to a compose file of the name that it
// looks for itself.
var overrides = []string{"compose.override.yaml", "compose.override.yml", "docker-compose.override.yml", "docker-compose.override.yaml"}

// hidden stands around the name of a variable in a text whose value is for nobody to see:
// no source has it, as it is a control character.
const hidden = "\x02"

// besides takes in what docker compose would read beside the file.
func (c *composer) besides() {
	if c.source.Open == nil {
		return
	}
	if slices.Contains(ComposeNames, c.source.base()) {
		for _, name := range overrides {
			if _, err := c.source.Open(name); err == nil {
				c.report.at(Lost, c.doc, nil, "%s, which docker compose adds to it, is not read: docker compose config puts them into one", name)
			}
		}
	}
	if c.opts.Variables != nil {
		return
	}
	data, err := c.source.Open(dotEnv)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	vars := &variables{}
	if err == nil {
		vars, err = readVariables(data, nil, nothing, c.report.spend)
	}
	if errors.Is(err, errMade) {
		c.report.saidTooMuch = true
	}
	if err != nil {
		c.report.at(Refused, c.doc, nil, "the file %s beside it, which docker compose reads, cannot be read (%v): mend it, or name another by --env-file FILE", dotEnv, err)
		return
	}
	c.beside, c.derived, c.blank = vars.values, vars.derived, vars.blank
}

// nothing is the lookup that finds nothing.
func nothing(string) (string, bool) { return "", false }

// lookup is the value of a variable, or its name as hidden.
func (c *composer) lookup(name string) (string, bool) {
	if v, set := c.opts.Variables[name]; set {
		return v, true
	}
	v, set := c.beside[name]
	if (secretValue(name, v) || c.derived[name]) && (!set || v != "") {
		return hidden + name + hidden, set
	}
	if set {
		c.used[name] = true
	}
	return v, set
}

// usedBeside says which variables came from the file beside.
func (c *composer) usedBeside() {
	for _, name := range slices.Sorted(maps.Keys(c.used)) {
		if of := c.blank[name]; of != "" {
			c.report.at(Lost, c.doc, nil, "%s of %s beside it has nothing in place of ${%s}, which nothing sets there, as with docker compose", name, dotEnv, of)
		}
	}
	if len(c.used) > 0 {
		c.report.at(Said, c.doc, nil, "takes %s of %s beside it, as docker compose does (--env-file FILE names another)", list(slices.Sorted(maps.Keys(c.used))), dotEnv)
	}
}

// substituted is a text with its variables replaced.
type substituted struct {
	text string
	// hidden and unset are the variables whose values nobody is to see, and those that
	// nothing sets.
	hidden, unset []string
}

func (c *composer) substitute(s string, find lookup) (out substituted, err error) {
	if !strings.Contains(s, "$") {
		return substituted{text: s}, nil
	}
	t := &template{lookup: find, spend: c.report.spend}
	text, err := t.expand(s, 0)
	var needed *neededError
	if errors.As(err, &needed) && secretive(needed.name) { // it is to be set as a secret
		t.lookup = func(name string) (string, bool) {
			if v, set := find(name); set || !secretive(name) {
				return v, set
			}
			return hidden + name + hidden, true
		}
		text, err = t.expand(s, 0)
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
	slices.Sort(t.unset)
	for _, name := range slices.Compact(t.unset) {
		if !secretive(name) {
			out.unset = append(out.unset, name)
		}
	}
	out.text = text
	return out, nil
}

// shown is the text with ${NAME} for what is hidden in it.
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

// interpolate is n with ${NAME} replaced by the variables given, by those beside and by
// the defaults in the file, as compose-go wants it: each dollar that is left is doubled.
// What refers to a variable that nothing sets is
//   - a secret in environment, if its name says so,
//   - refused where something else would be meant by silence: a mount, an image,
//   - elsewhere: empty, as in docker compose, which is said.
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
	find := c.lookup
	if isPath(path) {
		find = c.folder
	}
	v, err := c.substitute(s, find)
	switch {
	case errors.Is(err, errMade):
		c.report.tooMuch(c.doc, path)
	case !matters(path):
		v.text = v.shown()
	case err != nil:
		c.report.at(Refused, c.doc, path, "%v", err)
	case len(v.hidden) > 0:
		v.text = c.hide(v, path)
	case len(v.unset) > 0:
		c.empty(v, path)
	}
	return strings.ReplaceAll(v.text, "$", "$$")
}

// folder is lookup where a path is meant: that in which docker compose is called is the
// file's own.
func (c *composer) folder(name string) (string, bool) {
	if v, set := c.lookup(name); set || name != "PWD" {
		return v, set
	}
	return ".", true
}

// isPath says whether a field names files of the machine of whoever calls docker compose.
func isPath(path []string) bool {
	return len(path) > 2 && (path[0] == "services" && slices.Contains([]string{"volumes", "env_file"}, path[2]) ||
		(path[0] == "configs" || path[0] == "secrets") && path[2] == "file")
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
		"mem_limit", "mem_reservation", "cpus", "shm_size", "healthcheck", "pull_policy", "depends_on", "secrets", "configs", "profiles":
		return true
	case "deploy":
		return len(path) > 3 && path[3] != "labels" && path[3] != "update_config" && path[3] != "rollback_config"
	}
	return false
}

// empty notes a reference to what nothing sets.
func (c *composer) empty(v substituted, path []string) {
	field := ""
	if path[0] == "services" {
		field = path[2]
	}
	_, err := reference.ParseAnyReference(v.text)
	if path[0] == "name" || slices.Contains([]string{"volumes", "tmpfs", "depends_on", "secrets", "configs"}, field) || field == "image" && err != nil {
		c.report.at(Refused, c.doc, path, "refers to ${%s}, which nothing sets: give it by --env-file FILE", v.unset[0])
		return
	}
	c.report.at(Lost, c.doc, path, "has nothing in place of ${%s}, which nothing sets, as with docker compose (--env-file FILE)", v.unset[0])
}

// hide keeps what nobody is to see out of a field. A command keeps the reference, which
// a shell replaces when it runs, by a variable that becomes a secret.
func (c *composer) hide(v substituted, path []string) string {
	field := ""
	if path[0] == "services" {
		field = path[2]
	}
	if field != "command" && field != "entrypoint" && field != "healthcheck" {
		c.report.at(Refused, c.doc, path, "has ${%s} in it, which is called as a secret is and would stand in the descriptor: give it by --env-file FILE if it may", v.hidden[0])
		return ""
	}
	for _, name := range v.hidden {
		secret := c.secret(path[1], name, "${"+name+"}", name)
		if c.inShell(path) {
			c.report.at(Said, c.doc, path, "the shell finds ${%s} as the secret %s: %s", name, secret, c.toSet(name, secret))
		} else {
			c.report.at(Lost, c.doc, path, "the value of ${%s} is not carried over into it, where everybody sees it who can list processes: let the program read the variable, which is the secret %s; %s", name, secret, c.toSet(name, secret))
		}
	}
	return v.shown()
}

// toSet says how to set a secret, and where its value stands.
func (c *composer) toSet(variable, secret string) string {
	where := ""
	if _, set := c.beside[variable]; set {
		where = ", with what " + dotEnv + " has"
	}
	return "verge secret set " + secret + " --from-file FILE" + where
}

// inShell says whether the text at path, of a command or a check, is for a shell to read.
func (c *composer) inShell(path []string) bool {
	service := c.doc.root.child("services").child(path[1])
	n, at := service.child(path[2]), len(path)-1
	if path[2] == "healthcheck" {
		n = n.child("test")
		if n != nil && (n.kind == scalarKind || n.kind == listKind && len(n.values) > 0 && n.values[0].text == "CMD-SHELL") {
			return true
		}
	}
	words := wordsOf(n, path[at])
	if path[2] == "command" {
		words = append(wordsOf(service.child("entrypoint"), ""), words...)
	}
	return len(words) > 1 && shells[words[0][strings.LastIndexByte(words[0], '/')+1:]] &&
		slices.ContainsFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") })
}

var shells = map[string]bool{"sh": true, "bash": true, "ash": true, "dash": true, "zsh": true, "ksh": true}

// wordsOf are those of a command, as far as the item of a list that is named.
func wordsOf(n *node, item string) (out []string) {
	if n == nil {
		return nil
	}
	if n.kind == scalarKind {
		return strings.Fields(n.text)
	}
	for i, v := range n.values {
		if index(i) == item {
			break
		}
		if v.text != "CMD" || i > 0 {
			out = append(out, v.text)
		}
	}
	return out
}
