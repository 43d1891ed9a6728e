package engine

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// known are the parts that a part of the engine may use besides state, each with its reason.
var known = map[string][]string{
	"network": {"identity"}, // its own, which it reads anew
	"objects": {"identity"}, // proves to the cluster who asks
	// Pure functions and values; what has fields of its own it gets by the interfaces of Deps.
	"supervise": {"environment", "health", "network", "plan", "portpool", "secrets", "status", "users"},
}

const engine = "github.com/verge-edge/verge/internal/engine"

// foreign reports whether a part of the engine may not import a package: the engine itself, or
// another part.
func foreign(part, path string) bool {
	if path == engine {
		return true
	}
	used, ours := strings.CutPrefix(path, engine+"/")
	return ours && used != "state" && !slices.Contains(known[part], used)
}

// The parts of an engine know nothing of each other: the engine puts them together.
func TestPartsKnowOnlyState(t *testing.T) {
	for _, path := range []string{engine, engine + "/logs", engine + "/supervise"} {
		if !foreign("volumes", path) {
			t.Errorf("volumes may import %s", path)
		}
	}
	if foreign("volumes", engine+"/state") || foreign("volumes", engine+"api") || foreign("network", engine+"/identity") {
		t.Error("what a part may import is reported")
	}
	files, err := filepath.Glob("*/*.go")
	if err != nil || len(files) < 50 {
		t.Fatal(len(files), err)
	}
	for _, path := range files {
		part := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(part, "test") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if used := strings.Trim(i.Path.Value, `"`); foreign(part, used) {
				t.Errorf("%s uses %q: let the engine connect them, by a small interface or a value", path, used)
			}
		}
	}
}
