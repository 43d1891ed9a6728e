package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

// Bounds of the files that a compose file names.
const (
	maxJoined    = 100
	maxJoinBytes = 4 * MaxSourceBytes
	maxJoinDepth = 10
)

// sections are what a file that is included adds to.
var sections = []string{"services", "volumes", "networks", "configs", "secrets"}

// joiner puts the files that a compose file names (include, extends with file) into its tree,
// as docker compose does, so that one file is left for all that comes after. Only what lies
// below the folder of the first one is read. A service of another file that is extended
// stands in the tree under a name of its own, and is taken out when compose-go has read it.
type joiner struct {
	c       *composer
	read    map[string]*doc
	bases   map[string]string // names of services of other files, by file and service
	added   *node             // those services
	taken   map[string]bool   // names of services
	env     map[string]string // of the files of variables beside those included
	derived map[string]bool   // those of them that have what is secret in their values
	done    map[string]bool   // files that were included, each with its folder
	bytes   int
	values  int
	failed  bool
}

// part is one of the files. Its path is below the folder of the first.
type part struct {
	doc   *doc
	dir   string   // in which its paths begin
	stack []string // how it was come upon, itself last
}

// join does it, and says whether it could. A source whose folder is not known names no files.
func (c *composer) join() bool {
	root := c.doc.root
	if root.child("include").empty() && !slices.ContainsFunc(root.child("services").all(), func(s *node) bool { return s.child("extends").str("file") != "" }) {
		return true
	}
	const what = "names another file, and the folder of this one is not known: import it by its path, or let docker compose put them into one: docker compose config | verge import -"
	if c.source.Open == nil {
		if !root.child("include").empty() {
			c.report.at(Refused, c.doc, []string{"include"}, what)
		}
		for i, s := range root.child("services").all() {
			if s.child("extends").str("file") != "" {
				c.report.at(Refused, c.doc, []string{"services", root.child("services").keys[i].name, "extends", "file"}, what)
			}
		}
		return false
	}
	j := &joiner{c: c, read: map[string]*doc{}, bases: map[string]string{}, added: &node{kind: mappingKind}, taken: map[string]bool{}, env: map[string]string{}, derived: map[string]bool{}, done: map[string]bool{}}
	joined := *c.doc
	joined.root = j.include(part{c.doc, ".", []string{c.source.base()}})
	joined.root = j.extend(joined.root)
	for _, d := range j.read {
		joined.values += d.values
	}
	c.doc, c.joined = &joined, j
	return !j.failed
}

// refuse notes what keeps the files from being put together.
func (j *joiner) refuse(d *doc, at []string, format string, args ...any) {
	j.failed = true
	j.c.report.at(Refused, d, at, format, args...)
}

// include is a file with all that it includes.
func (j *joiner) include(p part) *node {
	out := p.doc.root.with("include", nil)
	for _, s := range sections {
		list := out.child(s)
		if list == nil || list.kind != mappingKind || len(p.stack) == 1 {
			continue
		}
		own := *list
		own.values = slices.Clone(list.values)
		for i, v := range own.values {
			own.values[i] = p.own(s, v)
		}
		out = out.with(s, &own)
	}
	for i, n := range p.doc.root.child("include").all() {
		at := []string{"include", index(i)}
		q, ok := j.included(p, n, at)
		if !ok {
			continue
		}
		id := q.stack[len(q.stack)-1] + "\n" + q.dir
		if j.done[id] {
			continue // it is there with all that it includes, however often it is named
		}
		if j.done[id] = true; len(j.done) > maxJoined {
			j.refuse(p.doc, at, "more than %d files are included", maxJoined)
			return out
		}
		out = j.merge(out, j.include(q), p, at)
	}
	return out
}

// included is the file that an entry of include names.
func (j *joiner) included(p part, n *node, at []string) (part, bool) {
	file, dir, env := n.text, "", ""
	if n.kind == mappingKind {
		one := func(name string) string {
			v := n.child(name)
			if v != nil && v.kind == listKind && len(v.values) == 1 {
				v = v.values[0]
			}
			if v != nil && (v.kind != scalarKind || v.text == "") {
				j.refuse(p.doc, extend(at, name), "names several files for one: docker compose config puts them into one")
			}
			if v == nil {
				return ""
			}
			return v.text
		}
		file, dir, env = one("path"), one("project_directory"), one("env_file")
	}
	if n.kind == listKind || file == "" {
		j.refuse(p.doc, at, "is no valid compose file: it names no file")
		return part{}, false
	}
	file, ok := j.below(p, file, at)
	q, fine := part{}, false
	if ok {
		q, fine = j.open(p, file, at)
	}
	if !fine {
		return q, false
	}
	q.dir = path.Dir(file)
	if dir != "" {
		if q.dir, ok = j.below(p, dir, at); !ok {
			return q, false
		}
	}
	if env == "" {
		env = path.Join(q.dir, dotEnv)
	} else if env, ok = j.below(p, env, at); !ok {
		return q, false
	}
	return q, j.variables(p, env, at)
}

// variables takes in the file of variables of an included one. Those of the project count
// before them, as with docker compose; what two such files say differently cannot be told
// apart afterwards.
func (j *joiner) variables(p part, file string, at []string) bool {
	if j.c.opts.Variables != nil || file == dotEnv {
		return true
	}
	data, err := j.c.source.Open(file)
	if errors.Is(err, fs.ErrNotExist) && path.Base(file) == dotEnv {
		return true
	}
	read := &variables{}
	if err == nil {
		read, err = readVariables(data, nil, nothing, j.c.report.spend)
	}
	if err != nil {
		j.refuse(p.doc, at, "the file %s, which docker compose reads, cannot be read: mend it, or name another by --env-file FILE (%v)", quote(file), err)
		return false
	}
	vars := read.values
	maps.Copy(j.derived, read.derived)
	for _, k := range slices.Sorted(maps.Keys(read.blank)) {
		j.c.report.at(Lost, p.doc, at, "%s of %s has nothing in place of ${%s}, which nothing sets there", k, quote(file), read.blank[k])
	}
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		if old, there := j.env[k]; there && old != vars[k] {
			j.refuse(p.doc, at, "the file %s has another value of ${%s} than that of another file that is included: docker compose config puts them into one, or --env-file FILE has one for all", quote(file), k)
			return false
		}
		j.env[k] = vars[k]
	}
	if len(vars) > 0 {
		j.c.report.at(Said, p.doc, at, "takes %s of %s for all files, where %s does not have them", count(len(vars), "variable"), quote(file), dotEnv)
	}
	return true
}

// below is a path of a part, below the folder of the first file.
func (j *joiner) below(p part, file string, at []string) (string, bool) {
	why := ""
	out := path.Join(p.dir, file)
	switch {
	case strings.Contains(file, "$"):
		why = "has a variable in it"
	case strings.Contains(file, "://") || strings.HasPrefix(file, "git@") || strings.HasPrefix(file, "oci:"):
		why = "is not on this machine"
	case path.IsAbs(file) || strings.HasPrefix(file, "~") || out == ".." || strings.HasPrefix(out, "../"):
		why = "is not below the folder of the first file"
	}
	if why != "" {
		j.refuse(p.doc, at, "%s %s, and is not read: docker compose config | verge import - takes what comes out", quote(file), why)
	}
	return out, why == ""
}

// open reads another file.
func (j *joiner) open(p part, file string, at []string) (part, bool) {
	q := part{dir: path.Dir(file), stack: extend(p.stack, file)}
	switch {
	case slices.Contains(p.stack, file):
		j.refuse(p.doc, at, "%s is included by itself", quote(file))
		return q, false
	case len(p.stack) > maxJoinDepth:
		j.refuse(p.doc, at, "is more than %d files deep", maxJoinDepth)
		return q, false
	}
	if q.doc = j.read[file]; q.doc != nil {
		return q, true
	}
	if len(j.read) == maxJoined {
		j.refuse(p.doc, at, "there are more than %d other files", maxJoined)
		return q, false
	}
	data, err := j.c.source.Open(file)
	if err != nil {
		j.refuse(p.doc, at, "%s cannot be read below the folder of the first file", quote(file))
		return q, false
	}
	if j.bytes += len(data); j.bytes > maxJoinBytes {
		j.refuse(p.doc, at, "the files have more than %d MiB together", maxJoinBytes>>20)
		return q, false
	}
	name := file
	if dir := strings.TrimSuffix(strings.ReplaceAll(j.c.source.Name, `\`, "/"), j.c.source.base()); dir != "" {
		name = dir + file
	}
	docs, err := parse(Source{Name: name, Data: data})
	switch {
	case err != nil:
		n := Note{Level: Refused, File: name, Text: err.Error()}
		if bad := (*problem)(nil); errors.As(err, &bad) {
			n.Line = bad.line
		}
		j.c.report.add(n)
		j.failed = true
		return q, false
	case len(docs) != 1 || docs[0].root.kind != mappingKind:
		j.refuse(p.doc, at, "%s is no compose file: it is not one mapping", quote(file))
		return q, false
	}
	q.doc = docs[0]
	q.doc.notTwice(Compose, j.c.report)
	for _, s := range sections {
		if list := q.doc.root.child(s); !list.empty() && list.kind != mappingKind {
			j.refuse(q.doc, []string{s}, "is no valid compose file: %s must be a mapping", s)
			return q, false
		}
	}
	if j.values += q.doc.values; j.values > maxComposeValues {
		j.refuse(p.doc, at, "the files have more than %d values together, once their aliases are followed", maxComposeValues)
		return q, false
	}
	j.read[file] = q.doc
	return q, true
}

// merge adds what an included file has. Only what is the same may be there already.
func (j *joiner) merge(out, more *node, p part, at []string) *node {
	for _, s := range sections {
		from := more.child(s)
		if from.empty() {
			continue
		}
		to := node{kind: mappingKind, line: from.line, file: from.values[0].file}
		if old := out.child(s); old != nil && old.kind == mappingKind {
			to = *old
			to.keys, to.values = slices.Clone(old.keys), slices.Clone(old.values)
		}
		for i, k := range from.keys {
			switch old := to.child(k.name); {
			case old == nil:
				to.keys, to.values = append(to.keys, k), append(to.values, from.values[i])
			case fmt.Sprint(old.plain()) != fmt.Sprint(from.values[i].plain()):
				j.refuse(p.doc, at, "has %s.%s, and so has another file: one of them has to be called otherwise", s, k.name)
			}
		}
		out = out.with(s, &to)
	}
	return out
}
