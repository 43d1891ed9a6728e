package merge

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/verge-edge/verge/internal/importer/compose/dotenv"
	"github.com/verge-edge/verge/internal/importer/compose/template"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// include returns a file with all that it includes.
func (j *merger) include(p part) *source.Node {
	out := p.doc.Root.With("include", nil)
	for _, s := range sections {
		list := out.Child(s)
		if list == nil || list.Kind != source.Mapping || len(p.stack) == 1 {
			continue
		}
		own := *list
		own.Values = slices.Clone(list.Values)
		for i, v := range own.Values {
			own.Values[i] = p.own(s, v)
		}
		out = out.With(s, &own)
	}
	for i, n := range p.doc.Root.Child("include").Items() {
		at := []string{"include", source.Index(i)}
		q, ok := j.included(p, n, at)
		if !ok {
			continue
		}
		id := q.stack[len(q.stack)-1] + "\n" + q.dir
		if j.done[id] {
			continue // already there, with all that it includes
		}
		if j.done[id] = true; len(j.done) > maxJoined {
			j.refuse(p.doc, at, "more than %d files are included", maxJoined)
			return out
		}
		out = j.merge(out, j.include(q), p, at)
	}
	return out
}

// included returns the file that an entry of include names.
func (j *merger) included(p part, n *source.Node, at []string) (part, bool) {
	file, dir, env := n.Text, "", ""
	if n.Kind == source.Mapping {
		one := func(name string) string {
			v := n.Child(name)
			if v != nil && v.Kind == source.List && len(v.Values) == 1 {
				v = v.Values[0]
			}
			if v != nil && (v.Kind != source.Scalar || v.Text == "") {
				j.refuse(p.doc, source.Extend(at, name),
					"names several files for one: docker compose config puts them into one")
			}
			if v == nil {
				return ""
			}
			return v.Text
		}
		file, dir, env = one("path"), one("project_directory"), one("env_file")
	}
	if n.Kind == source.List || file == "" {
		j.refuse(p.doc, at, "is not a valid compose file: it names no file")
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
		env = path.Join(q.dir, dotenv.DotEnv)
	} else if env, ok = j.below(p, env, at); !ok {
		return q, false
	}
	return q, j.variables(p, env, at)
}

// variables reads the file of variables of an included file. Those of the project take
// precedence, as in docker compose. Conflicts of two such files cannot be told apart
// afterwards.
func (j *merger) variables(p part, file string, at []string) bool {
	if j.given || file == dotenv.DotEnv {
		return true
	}
	data, err := j.source.Open(file)
	if errors.Is(err, fs.ErrNotExist) && path.Base(file) == dotenv.DotEnv {
		return true
	}
	read := &dotenv.Set{}
	if err == nil {
		read, err = dotenv.Read(data, nil, template.None, j.report.Spend)
	}
	if err != nil {
		j.refuse(p.doc, at,
			"the file %s, which docker compose reads, cannot be read: mend it, or name another by --env-file FILE (%v)",
			source.Quote(file), err)
		return false
	}
	vars := read.Values
	maps.Copy(j.Derived, read.Derived)
	for _, k := range slices.Sorted(maps.Keys(read.Blank)) {
		j.report.At(report.Lost, p.doc, at, "%s of %s has nothing in place of ${%s}, which nothing sets there",
			k, source.Quote(file), read.Blank[k])
	}
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		if old, there := j.Env[k]; there && old != vars[k] {
			j.refuse(p.doc, at, "the file %s has another value of ${%s} than that of another file that is "+
				"included: docker compose config puts them into one, or --env-file FILE has one for all", source.Quote(file), k)
			return false
		}
		j.Env[k] = vars[k]
	}
	if len(vars) > 0 {
		j.report.At(report.Said, p.doc, at, "takes %s of %s for all files, where %s does not have them",
			report.Count(len(vars), "variable"), source.Quote(file), dotenv.DotEnv)
	}
	return true
}
