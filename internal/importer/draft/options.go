package draft

import (
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Kind of a source.
type Kind string

// Kinds of sources.
const (
	Oakestra   Kind = "oakestra"
	Compose    Kind = "compose"
	Kubernetes Kind = "kubernetes"
)

// Kinds lists all kinds.
func Kinds() []Kind { return []Kind{Compose, Oakestra, Kubernetes} }

// Title is the kind's name for people.
func (k Kind) Title() string {
	return map[Kind]string{Oakestra: "Oakestra", Compose: "compose", Kubernetes: "Kubernetes"}[k]
}

// Options of Import.
type Options struct {
	// Kind of all sources; "" detects it from their contents.
	Kind Kind
	// Name of the application, if one is made; "" takes it from the sources.
	Name string
	// Namespace of all applications; "" takes that of the sources, if they name one.
	Namespace string
	// Variables that a compose file may refer to. The environment is not read. If nil, a file .env
	// beside it is, as docker compose does; variables in it that are named like secrets become
	// secrets, whereas Variables are written into the descriptor.
	Variables map[string]string
	// Profiles of a compose file to import; "*" is all.
	Profiles []string
	// MemoryLimit of instances without one in the source; 0 is 1 GiB. Verge requires a limit.
	MemoryLimit api.Bytes
}

// App is an imported application.
type App struct {
	Name string
	// Source is its descriptor.
	Source []byte
	// From are the files that it was made from.
	From []string
}

// AppName is the name of an application: the requested one, or the source's.
func AppName(o Options, said ...string) (name, from string) {
	if o.Name != "" {
		return o.Name, o.Name
	}
	for _, s := range said {
		if s != "" && s != "." && s != "/" {
			return Label(s), s
		}
	}
	return "app", "app"
}

// BaseName is the name of a file without the suffixes of its kind.
func BaseName(file string) string {
	if file == "stdin" {
		return ""
	}
	base := source.File{Name: file}.Base()
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		base = strings.TrimSuffix(base, ext)
	}
	return base
}
