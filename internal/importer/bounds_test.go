package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// lines are n lines made by a format of one number.
func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// expansions are sources of little that stand for very much, where what others refer to has
// 900,000 bytes.
func expansions(bytes int) map[string]string {
	large := strings.Repeat("x", bytes)
	doubling := "    env:\n    - {name: A0, value: xxxxxxxxxx}\n"
	for i := range 40 {
		doubling += fmt.Sprintf("    - {name: A%d, value: $(A%d)$(A%d)}\n", i+1, i, i)
	}
	const config = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n"
	const pods = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec:\n  containers:\n  - name: a\n    image: b\n"
	return map[string]string{
		"kubernetes: each twice the one above":   podText(doubling, ""),
		"kubernetes: the same in many variables": podText("    env:\n    - {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}\n"+lines(3000, "    - {name: A%d, value: $(B)}\n"), "") + config + "  k: " + large,
		"kubernetes: the same in many arguments": podText("    env:\n    - {name: B, valueFrom: {configMapKeyRef: {name: c, key: k}}}\n    args:\n"+lines(3000, "    - $(B)%d\n"), "") + config + "  k: " + large,
		"kubernetes: many variables many times":  podText("    envFrom:\n"+lines(300, "    - {prefix: P%d_, configMapRef: {name: c}}\n"), "") + config + lines(2000, "  K%d: v\n"),
		"kubernetes: a large variable in many":   lines(900, pods+"    env: [{name: X, valueFrom: {configMapKeyRef: {name: c, key: k}}}]\n") + config + "  k: " + large,
		"kubernetes: a large annotation often":   "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}, annotations: {a: " + large + "}}\n    spec:\n      containers:\n      - name: web\n        image: nginx\n        env:\n" + lines(900, "        - {name: X%d, valueFrom: {fieldRef: {fieldPath: \"metadata.annotations['a']\"}}}\n"),
		"kubernetes: a file in many":             lines(900, pods+"    volumeMounts: [{name: v, mountPath: /x}]\n  volumes: [{name: v, configMap: {name: c}}]\n") + config + "  k: " + large[:bytes/4],
		"compose: a large variable in many":      "services:\n" + lines(900, "  s%d: {image: a, environment: {X: '${BIG}'}}\n") + envMark + "BIG=" + large,
		"compose: a large variable often":        "services:\n  a: {image: a, command: ['" + strings.Repeat("${BIG}", 3000) + "']}\n" + envMark + "BIG=" + large,
		"compose: a large variable in labels":    "services:\n  a: {image: a, labels: {x: '" + strings.Repeat("${BIG}", 3000) + "'}}\n" + envMark + "BIG=" + large,
		"compose: each twice the one above":      "services:\n  a: {image: a, environment: {X: '${A33}'}}\n" + envMark + "A0=xxxxxxxxxx\n" + doubled(),
		"compose: a file of variables in many":   "services:\n" + lines(900, "  s%d: {image: a, env_file: .env}\n") + envMark + "BIG=" + large,
		"compose: a config in many":              "configs: {c: {content: '$$" + large + "'}}\nservices:\n" + lines(900, "  s%d: {image: a, configs: [c]}\n"),
		"compose: what many services extend":     "services:\n  base: {image: a, environment: {X: '" + large + "'}}\n" + lines(900, "  s%d: {extends: base}\n"),
	}
}

// TestExpansions: what stands for more than a descriptor could have is refused at its place,
// before it is made.
func TestExpansions(t *testing.T) {
	for name, text := range expansions(900_000) {
		t.Run(name, func(t *testing.T) {
			text, env, given := strings.Cut(text, envMark)
			open := func(path string) ([]byte, error) {
				if path != dotEnv || !given {
					return nil, fs.ErrNotExist
				}
				return []byte(env), nil
			}
			res, err := Import([]Source{{Name: "in.yaml", Data: []byte(text), Folder: "shop", Open: open}}, Options{})
			if !errors.Is(err, ErrRefused) || len(res.Apps) > 0 {
				t.Fatalf("it was not refused: %v", err)
			}
			refusals := 0
			for _, n := range res.Notes {
				if n.Level == Refused {
					refusals++
				}
				if n.Level == Refused && (n.Line == 0 || !strings.Contains(n.Text, "more than 8 MiB together")) {
					t.Errorf("%v", n)
				}
			}
			if refusals != 1 {
				t.Errorf("%d refusals, not one: %v", refusals, res.Notes)
			}
		})
	}
}

// TestAlmostTooMuch: what fits into a descriptor goes through, however it is made.
func TestAlmostTooMuch(t *testing.T) {
	half := strings.Repeat("x", 1000)
	for _, text := range []string{
		podText("    env:\n    - {name: B, value: "+half+"}\n"+lines(900, "    - {name: A%d, value: $(B)}\n"), ""),
		"services:\n" + lines(400, "  s%d: {image: a, environment: {X: '${BIG:-"+half+"}'}}\n"),
	} {
		if res, err := of(text, Options{}); err != nil {
			t.Errorf("%v, %v", err, res.Notes)
		}
	}
}
