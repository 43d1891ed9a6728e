package oakestra_test

import (
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

func FuzzImport(f *testing.F) {
	importertest.Fuzz(f, importer.Oakestra, nil, "testdata/oakestra/*.json", "testdata/cases/oakestra-*.json")
}

// TestGolden does so for descriptors of Oakestra.
func TestGolden(t *testing.T) {
	importertest.Golden(t, importer.Oakestra, "testdata/oakestra/*.json", "testdata/cases/oakestra-*.json")
}
