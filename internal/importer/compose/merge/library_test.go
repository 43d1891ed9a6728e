package merge

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestLibraryLeavesTheProject keeps the reason why compose-go does not include files here: it opens
// them wherever they are. If this fails, look at the library again.
func TestLibraryLeavesTheProject(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside.yaml")
	if err := os.WriteFile(outside, []byte("services: {b: {image: b}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := map[string]any{"include": []any{outside}, "services": map[string]any{"a": map[string]any{"image": "a"}}}
	p, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: t.TempDir(), ConfigFiles: []types.ConfigFile{{Filename: "in.yaml", Config: root}},
		Environment: types.Mapping{},
	}, func(o *loader.Options) { o.SetProjectName("project", true) })
	if err != nil || !slices.Contains(p.ServiceNames(), "b") {
		t.Errorf("%v: compose-go stays in its project now", err)
	}
}
