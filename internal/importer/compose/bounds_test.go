package compose_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/compose/merge"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// expansions are compose files of little that stand for very much, where what others refer
// to has so many bytes.
func expansions(bytes int) map[string]string {
	large := strings.Repeat("x", bytes)
	return map[string]string{
		"a large variable in many": "services:\n" + importertest.Lines(900,
			"  s%d: {image: a, environment: {X: '${BIG}'}}\n") + importertest.EnvMark + "BIG=" + large,
		"a large variable often": "services:\n  a: {image: a, command: ['" + strings.Repeat("${BIG}", 3000) +
			"']}\n" + importertest.EnvMark + "BIG=" + large,
		"a large variable in labels": "services:\n  a: {image: a, labels: {x: '" + strings.Repeat("${BIG}", 3000) +
			"'}}\n" + importertest.EnvMark + "BIG=" + large,
		"each twice the one above": "services:\n  a: {image: a, environment: {X: '${A33}'}}\n" +
			importertest.EnvMark + "A0=xxxxxxxxxx\n" + doublingVariables(),
		"a file of variables in many": "services:\n" + importertest.Lines(900, "  s%d: {image: a, env_file: .env}\n") +
			importertest.EnvMark + "BIG=" + large,
		"a config in many": "configs: {c: {content: '$$" + large + "'}}\nservices:\n" +
			importertest.Lines(900, "  s%d: {image: a, configs: [c]}\n"),
		"what many services extend": "services:\n  base: {image: a, environment: {X: '" + large + "'}}\n" +
			importertest.Lines(900, "  s%d: {extends: base}\n"),
	}
}

// doublingVariables are variables of which each is twice the one above it.
func doublingVariables() string {
	var b strings.Builder
	for i := range 40 {
		fmt.Fprintf(&b, "A%d=${A%d}${A%d}\n", i+1, i, i)
	}
	return b.String()
}

// TestExpansions: see expand.
func TestExpansions(t *testing.T) { importertest.Expansions(t, expansions(900_000)) }

// TestAlmostTooMuch: what fits into a descriptor goes through, however it is made.
func TestAlmostTooMuch(t *testing.T) {
	text := "services:\n" + importertest.Lines(400, "  s%d: {image: a, environment: {X: '${BIG:-"+
		strings.Repeat("x", 1000)+"}'}}\n")
	if res, err := importertest.Of(text, importer.Options{}); err != nil {
		t.Errorf("%v, %v", err, res.Notes)
	}
}

// TestComposeBounds: what would keep compose-go busy for hours is refused at once.
func TestComposeBounds(t *testing.T) {
	var dense strings.Builder
	dense.WriteString("services:\n")
	for i := range 60 { // 2^60 ways lead through it
		fmt.Fprintf(&dense, "  s%d: {image: a, depends_on: {", i)
		for j := range i {
			fmt.Fprintf(&dense, "s%d: {condition: service_started}, ", j)
		}
		dense.WriteString("}}\n")
	}
	var many strings.Builder
	many.WriteString("services:\n  a:\n    image: a\n    labels:\n")
	for i := range merge.MaxValues {
		fmt.Fprintf(&many, "      l%d: x\n", i)
	}
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"ways", dense.String(), 18, "more than 100000 ways"},
		{"a circle of three", "services:\n  a: {image: a, depends_on: [b]}\n" +
			"  b: {image: b, depends_on: {c: {condition: service_healthy}}}\n  c: {image: c, depends_on: [b]}\n", 3,
			"dependency cycle detected: b -> c -> b"},
		{"ports", "services:\n  a:\n    image: a\n    ports: ['1-65535:1-65535/udp']\n", 4, "at most 1000 ports"},
		{"expose", "services:\n  a:\n    image: a\n    expose: ['1-600', '700-1300']\n", 4, "at most 1000 ports"},
		{"a long command", "services:\n  a:\n    image: a\n    command: " + strings.Repeat("a", 40_000) + "\n", 4,
			"is too long for a text"},
		{"many values", many.String(), 1, "has more than 20000 values"},
		{"deep references", "services:\n  a:\n    image: a\n    user: '" + strings.Repeat("${A:-", 30) +
			strings.Repeat("}", 30) + "'\n", 4, "write a dollar as $$"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			importertest.Refused(t, c.text, c.line, c.why)
		})
	}
	// What people write goes through: many references in one text, and chains.
	res, err := importertest.Of("services:\n  a:\n    image: a\n    environment:\n      X: '"+
		strings.Repeat("${A:-x}", 50_000)+"'\n", importer.Options{})
	if err != nil || !strings.Contains(string(res.Apps[0].Source), strings.Repeat("x", 50_000)) {
		t.Errorf("%v, %v", err, res.Notes)
	}
}
