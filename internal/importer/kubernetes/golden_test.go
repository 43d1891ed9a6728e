package kubernetes_test

import (
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

func FuzzImport(f *testing.F) {
	importertest.Fuzz(f, importer.Kubernetes, expansions(2000), "testdata/kubernetes/*.yaml", "testdata/cases/kubernetes-*.yaml")
}

// TestGolden does so for manifests.
func TestGolden(t *testing.T) {
	importertest.Golden(t, importer.Kubernetes, "testdata/kubernetes/*.yaml", "testdata/cases/kubernetes-*.yaml")
}
