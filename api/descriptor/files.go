package descriptor

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
)

const maxPathLength = 255 // of a file or volume, in bytes

// pathProblem says what keeps p from being a path below the working directory of
// an instance.
//
// In a container it may be absolute.
func pathProblem(p string, container bool) (what, remedy string) {
	const below = "write a path below the working directory of the instance: conf/app.ini"
	if rest, absolute := strings.CutPrefix(p, "/"); container && absolute && rest != "" {
		p = rest
	}
	switch {
	case p == "" || p == ".":
		return "is not the path of anything in the working directory", below
	case len(p) > maxPathLength:
		return fmt.Sprintf("has %d bytes, a path has at most %d", len(p), maxPathLength), ""
	case strings.HasPrefix(p, "/"):
		return "is absolute", below
	case slices.Contains(strings.Split(p, "/"), ".."):
		return "leads out of the working directory", below
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }):
		return "contains a character that has no place in a path", "use letters, digits and any of - _ . and spaces"
	case path.Clean(p) != p:
		return "is written in a roundabout way", "write " + path.Clean(p)
	}
	return "", ""
}

// files checks the paths of files, that each has one source, and that none is in
// the way of another.
func (v *validator) files(at string, s *api.Service) {
	if len(s.Files) > api.MaxFiles {
		return // said already
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		in := where{path: at}.entry(name).path
		f := s.Files[name]
		if what, remedy := pathProblem(name, s.Runtime == api.Container); what != "" {
			v.fail(v.keyAt(in), in, words.Quote(name)+" "+what, remedy)
			continue
		}
		_, content := v.seen[in+".content"]
		_, secret := v.seen[in+".secret"]
		switch {
		case content == secret:
			v.complain(in, "needs exactly one of content and secret", "write {content: text} or {secret: name}")
		case secret:
			v.label(in+".secret", f.Secret, "a secret", "tls-key")
		}
		for outer := path.Dir(name); outer != "." && outer != "/"; outer = path.Dir(outer) {
			if _, isFile := s.Files[outer]; isFile {
				v.complain(in, words.Quote(outer)+" is a file too, and no folder", "choose another path")
			}
		}
	}
}

// volumes checks the paths of volumes, that each is of one kind, and that none is
// in the way of another or of a file.
func (v *validator) volumes(at string, s *api.Service) {
	if len(s.Volumes) > api.MaxVolumes { // said already, and each is compared with all others
		return
	}
	names := map[string]int{}
	for i, vol := range s.Volumes {
		in := fmt.Sprintf("%s[%d]", at, i)
		_, named := v.seen[in+".name"]
		_, host := v.seen[in+".host"]
		_, tmpfs := v.seen[in+".tmpfs"]
		count := 0
		for _, given := range []bool{named, host, tmpfs} {
			if given {
				count++
			}
		}
		if count != 1 {
			v.complain(in, "needs exactly one of name, host and tmpfs", "write name: data for a directory that the worker keeps")
		}
		if named {
			v.label(in+".name", vol.Name, "a volume", "data")
			if j, taken := names[vol.Name]; taken {
				v.complain(in+".name", fmt.Sprintf("%s is also the name of volumes[%d]", words.Quote(vol.Name), j),
					"give each volume its own name")
			}
			names[vol.Name] = i
		}
		if host && (!strings.HasPrefix(vol.Host, "/") || path.Clean(vol.Host) != vol.Host || len(vol.Host) > 4096 ||
			strings.ContainsFunc(vol.Host, func(r rune) bool { return !unicode.IsPrint(r) })) {
			v.complain(in+".host", words.Quote(vol.Host)+" is not an absolute path",
				"write it from /, without . and .. and without a / at the end")
		}
		if tmpfs && vol.ReadOnly {
			v.complain(in+".read_only", "a directory in memory that nobody can write to stays empty", "remove read_only")
		}
		v.volumePath(in+".path", i, s)
	}
}

func (v *validator) volumePath(at string, i int, s *api.Service) {
	p := s.Volumes[i].Path
	if p == "" {
		v.complain(at, "is missing", "write where the instance finds it: path: data")
		return
	}
	if what, remedy := pathProblem(p, s.Runtime == api.Container); what != "" {
		v.complain(at, words.Quote(p)+" "+what, remedy)
		return
	}
	for j, other := range s.Volumes[:i] {
		if p == other.Path || within(p, other.Path) || within(other.Path, p) {
			v.complain(at, fmt.Sprintf("%s is in the way of the %s of volumes[%d]", words.Quote(p), words.Quote(other.Path), j),
				"choose paths that do not contain each other")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		if name == p || within(name, p) || within(p, name) {
			v.complain(at, fmt.Sprintf("%s is in the way of the file %s", words.Quote(p), words.Quote(name)),
				"choose paths that do not contain each other")
		}
	}
}

// within says whether the path p is below outer.
func within(p, outer string) bool { return strings.HasPrefix(p, outer+"/") }

// secrets checks the variables that are secrets.
func (v *validator) secrets(at string, s *api.Service) {
	for _, name := range slices.Sorted(maps.Keys(s.EnvSecrets)) {
		in := where{path: at}.entry(name).path
		v.variable(in, name)
		if _, both := s.Env[name]; both {
			v.complain(in, "is in env too", "remove one of them")
		}
		v.label(in, s.EnvSecrets[name], "a secret", "db-password")
	}
}
