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

// Kinds are all of them.
func Kinds() []Kind { return []Kind{Compose, Oakestra, Kubernetes} }

// Title is what people call it.
func (k Kind) Title() string {
	return map[Kind]string{Oakestra: "Oakestra", Compose: "compose", Kubernetes: "Kubernetes"}[k]
}

// Options of Import.
type Options struct {
	// Kind of all sources; "" is found out from what is in them.
	Kind Kind
	// Name of the application, where one is made; "" is taken from the sources.
	Name string
	// Namespace of all applications; "" is that of the sources, if they name one.
	Namespace string
	// Variables that a compose file may refer to. The environment is not looked at. Nil is
	// that a file .env beside it counts, as for docker compose; what is called as secrets are
	// in that one becomes secrets, while Variables stand in the descriptor.
	Variables map[string]string
	// Profiles of a compose file whose services are wanted; "*" is all.
	Profiles []string
	// MemoryLimit of instances for which a source states none; 0 is 1 GiB. Verge has no
	// instance without a limit.
	MemoryLimit api.Bytes
}

// App is one application that was made.
type App struct {
	Name string
	// Source is its descriptor.
	Source []byte
	// From are the files that it was made of.
	From []string
}

// AppName is the name of an application: that asked for, or of what the source says.
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

// BaseName is the name of a file without what stands for its kind.
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
