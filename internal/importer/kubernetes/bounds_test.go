package kubernetes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// expansions are manifests of little that stand for very much, where what others refer
// to has so many bytes.
func expansions(bytes int) map[string]string {
	large := strings.Repeat("x", bytes)
	doubling := "    env:\n    - {name: A0, value: xxxxxxxxxx}\n"
	for i := range 40 {
		doubling += fmt.Sprintf("    - {name: A%d, value: $(A%d)$(A%d)}\n", i+1, i, i)
	}
	const config = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"
	const pods = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec:\n  containers:\n  - name: a\n    image: b\n"
	return map[string]string{
		"each twice the one above":   podText(doubling, ""),
		"the same in many variables": podText("    env:\n    - {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}\n"+importertest.Lines(3000, "    - {name: A%d, value: $(B)}\n"), "") + config + "  k: " + large,
		"the same in many arguments": podText("    env:\n    - {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}\n    args:\n"+importertest.Lines(3000, "    - $(B)%d\n"), "") + config + "  k: " + large,
		"many variables many times":  podText("    envFrom:\n"+importertest.Lines(300, "    - {prefix: P%d_, configMapRef: {name: c}}\n"), "") + config + importertest.Lines(2000, "  K%d: v\n"),
		"a large variable in many":   importertest.Lines(900, pods+"    env: [{name: X, valueFrom: {configMapKeyRef: {name: c, key: k}}}]\n") + config + "  k: " + large,
		"a large annotation often":   "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}, annotations: {a: " + large + "}}\n    spec:\n      containers:\n      - name: web\n        image: nginx\n        env:\n" + importertest.Lines(900, "        - {name: X%d, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['a']\"}}}\n"),
		"a file in many":             importertest.Lines(900, pods+"    volumeMounts: [{name: v, mountPath: /x}]\n  volumes: [{name: v, configMap: {name: c}}]\n") + config + "  k: " + large[:bytes/4],
	}
}

// TestExpansions: see expand.
func TestExpansions(t *testing.T) { importertest.Expansions(t, expansions(900_000)) }

// TestAlmostTooMuch: what fits into a descriptor goes through, however it is made.
func TestAlmostTooMuch(t *testing.T) {
	text := podText("    env:\n    - {name: B, value: "+strings.Repeat("x", 1000)+"}\n"+importertest.Lines(900, "    - {name: A%d, value: $(B)}\n"), "")
	if res, err := importertest.Of(text, importer.Options{}); err != nil {
		t.Errorf("%v, %v", err, res.Notes)
	}
}
