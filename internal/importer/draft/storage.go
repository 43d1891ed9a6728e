package draft

import (
	"path"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/source"
)

// DefaultTmpfs is the size of a tmpfs without one in the source.
const DefaultTmpfs api.Bytes = 64 << 20

// maxFiles is the most files of a service that api accepts.
const maxFiles = 100

// MaxContent bounds a file that is written into a descriptor.
const MaxContent = 256 << 10

// AddVolume adds a volume unless its path overlaps another; it returns the reason if it does not.
func AddVolume(s *api.Service, v api.Volume) string {
	v.Path = path.Clean(v.Path)
	for _, other := range s.Volumes {
		if v.Path == other.Path || below(v.Path, other.Path) || below(other.Path, v.Path) {
			return "is not carried over: " + source.Quote(v.Path) + " is in the way of the volume at " +
				source.Quote(other.Path)
		}
		if v.Name != "" && v.Name == other.Name {
			return "is not carried over: the volume " + v.Name + " is at " + source.Quote(other.Path) +
				" already, and a volume has one place"
		}
	}
	for f := range s.Files {
		if f == v.Path || below(f, v.Path) || below(v.Path, f) {
			return "is not carried over: " + source.Quote(v.Path) + " is in the way of the file " + source.Quote(f)
		}
	}
	s.Volumes = append(s.Volumes, v)
	return ""
}

// AddFile adds a file unless its path overlaps another.
func AddFile(s *api.Service, at string, f api.File) string {
	at = path.Clean(at)
	for _, v := range s.Volumes {
		if at == v.Path || below(at, v.Path) || below(v.Path, at) {
			return "is not carried over: " + source.Quote(at) + " is in the way of the volume at " +
				source.Quote(v.Path)
		}
	}
	if len(s.Files) >= maxFiles {
		return "is not carried over: a service has at most 100 files"
	}
	for other := range s.Files {
		if other == at {
			return "is not carried over: there is a file " + source.Quote(at) + " already"
		}
		if below(at, other) || below(other, at) {
			return "is not carried over: " + source.Quote(at) + " is in the way of the file " + source.Quote(other)
		}
	}
	if s.Files == nil {
		s.Files = map[string]api.File{}
	}
	s.Files[at] = f
	return ""
}

func below(p, outer string) bool { return strings.HasPrefix(p, strings.TrimSuffix(outer, "/")+"/") }
