package compose_test

import (
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

func FuzzImport(f *testing.F) {
	importertest.Fuzz(f, importer.Compose, expansions(2000), "testdata/compose/*/compose.yaml",
		"testdata/cases/compose-*.yaml", "testdata/projects/*/compose.yaml")
}

// TestGolden imports each example, and each case of our own, and compares notes and
// descriptors.
func TestGolden(t *testing.T) {
	importertest.Golden(t, importer.Compose, "testdata/compose/*/compose.yaml", "testdata/cases/compose-*.yaml",
		"testdata/projects/*/compose.yaml")
}
