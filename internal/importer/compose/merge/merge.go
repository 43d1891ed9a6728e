package merge

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Bounds of the files that a compose file names.
const (
	maxJoined    = 100
	maxJoinBytes = 4 * source.MaxBytes
	maxJoinDepth = 10
)

// sections are those that an included file adds to.
var sections = []string{"services", "volumes", "networks", "configs", "secrets"}

// merger puts the files that a compose file names (include, extends with file) into its tree,
// as docker compose does, so that one file is left for all that comes after. It reads only
// files below the folder of the first one. An extended service of another file is in the tree
// under a separate name, and is removed after compose-go has read it.
type merger struct {
	Result
	top    *source.Document
	source source.File
	report *report.Report
	given  bool // variables are given: files of variables beside the included ones are not read
	read   map[string]*source.Document
	added  *source.Node    // services of other files that are extended
	taken  map[string]bool // names of services
	done   map[string]bool // included files, each with its folder
	bytes  int
	values int
	failed bool
}

// Result is one document made of several files.
type Result struct {
	Doc     *source.Document
	Bases   map[string]string // names of services of other files that are only extended, by file and service
	Env     map[string]string // of the files of variables beside the included ones
	Derived map[string]bool   // variables of env whose values contain a secret
}

// part is one of the files, below the folder of the first.
type part struct {
	doc   *source.Document
	dir   string   // that its paths are relative to
	stack []string // the files that led to it, itself last
}

// Files merges the files that a compose file names into its document, and reports whether it
// could. The result is nil where it names none. given says that variables are given, so that no
// file of variables is read beside the included ones. A source without Open cannot name files.
func Files(d *source.Document, s source.File, given bool, r *report.Report) (*Result, bool) {
	root := d.Root
	services := root.Child("services")
	extended := func(s *source.Node) bool { return s.Child("extends").Str("file") != "" }
	if root.Child("include").Empty() && !slices.ContainsFunc(services.Items(), extended) {
		return nil, true
	}
	const what = "names another file, and the folder of this one is not known: import it by its path, or let docker " +
		"compose put them into one: docker compose config | verge import -"
	if s.Open == nil {
		if !root.Child("include").Empty() {
			r.At(report.Refused, d, []string{"include"}, what)
		}
		for i, s := range services.Items() {
			if extended(s) {
				r.At(report.Refused, d, []string{"services", services.Keys[i].Name, "extends", "file"}, what)
			}
		}
		return nil, false
	}
	out := *d
	j := &merger{
		Result: Result{Doc: &out, Bases: map[string]string{}, Env: map[string]string{}, Derived: map[string]bool{}},
		top:    d, source: s, report: r, given: given,
		read: map[string]*source.Document{}, added: &source.Node{Kind: source.Mapping}, taken: map[string]bool{},
		done: map[string]bool{},
	}
	out.Root = j.extend(j.include(part{d, ".", []string{s.Base()}}))
	for _, d := range j.read {
		out.Size += d.Size
	}
	return &j.Result, !j.failed
}

// refuse notes what keeps the files from being merged.
func (j *merger) refuse(d *source.Document, at []string, format string, args ...any) {
	j.failed = true
	j.report.At(report.Refused, d, at, format, args...)
}

// below returns a path of a part relative to the folder of the first file, which it must not
// leave.
func (j *merger) below(p part, file string, at []string) (string, bool) {
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
		j.refuse(p.doc, at, "%s %s, and is not read: docker compose config | verge import - takes what comes out",
			source.Quote(file), why)
	}
	return out, why == ""
}

// open reads another file.
func (j *merger) open(p part, file string, at []string) (part, bool) {
	q := part{dir: path.Dir(file), stack: source.Extend(p.stack, file)}
	switch {
	case slices.Contains(p.stack, file):
		j.refuse(p.doc, at, "%s is included by itself", source.Quote(file))
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
	data, err := j.source.Open(file)
	if err != nil {
		j.refuse(p.doc, at, "%s cannot be read below the folder of the first file", source.Quote(file))
		return q, false
	}
	if j.bytes += len(data); j.bytes > maxJoinBytes {
		j.refuse(p.doc, at, "the files have more than %d MiB together", maxJoinBytes>>20)
		return q, false
	}
	name := file
	if dir := strings.TrimSuffix(strings.ReplaceAll(j.source.Name, `\`, "/"), j.source.Base()); dir != "" {
		name = dir + file
	}
	docs, err := source.Parse(source.File{Name: name, Data: data})
	switch {
	case err != nil:
		n := report.Note{Level: report.Refused, File: name, Text: err.Error()}
		if bad := (*source.Problem)(nil); errors.As(err, &bad) {
			n.Line = bad.Line
		}
		j.report.Add(n)
		j.failed = true
		return q, false
	case len(docs) != 1 || docs[0].Root.Kind != source.Mapping:
		j.refuse(p.doc, at, "%s is not a compose file: it is not one mapping", source.Quote(file))
		return q, false
	}
	q.doc = docs[0]
	j.report.Duplicates(q.doc, report.Refused)
	for _, s := range sections {
		if list := q.doc.Root.Child(s); !list.Empty() && list.Kind != source.Mapping {
			j.refuse(q.doc, []string{s}, "is not a valid compose file: %s must be a mapping", s)
			return q, false
		}
	}
	if j.values += q.doc.Size; j.values > MaxValues {
		j.refuse(p.doc, at, "the files have more than %d values together, once their aliases are followed", MaxValues)
		return q, false
	}
	j.read[file] = q.doc
	return q, true
}

// merge adds the content of an included file. What already exists must be equal.
func (j *merger) merge(out, more *source.Node, p part, at []string) *source.Node {
	for _, s := range sections {
		from := more.Child(s)
		if from.Empty() {
			continue
		}
		to := source.Node{Kind: source.Mapping, Line: from.Line, File: from.Values[0].File}
		if old := out.Child(s); old != nil && old.Kind == source.Mapping {
			to = *old
			to.Keys, to.Values = slices.Clone(old.Keys), slices.Clone(old.Values)
		}
		for i, k := range from.Keys {
			switch old := to.Child(k.Name); {
			case old == nil:
				to.Keys, to.Values = append(to.Keys, k), append(to.Values, from.Values[i])
			case fmt.Sprint(old.Plain()) != fmt.Sprint(from.Values[i].Plain()):
				j.refuse(p.doc, at, "has %s.%s, and so has another file: one of them has to be called otherwise", s,
					k.Name)
			}
		}
		out = out.With(s, &to)
	}
	return out
}
