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

// The parts of an engine know nothing of each other: the engine puts them together.
func TestPartsKnowOnlyState(t *testing.T) {
	const prefix = "github.com/verge-edge/verge/internal/engine"
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
			used, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), prefix)
			if used = strings.TrimPrefix(used, "/"); ours && used != "state" && !slices.Contains(known[part], used) {
				t.Errorf("%s uses %q: let the engine connect them, by a small interface or a value", path, used)
			}
		}
	}
}
