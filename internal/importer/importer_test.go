package importer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// TestBadSources: what is not a source, or is made to cost much, is refused with its line.
func TestBadSources(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"empty", "", 0, "says nothing"},
		{"comments", "# nothing\n---\n# at all\n", 0, "says nothing"},
		{"syntax", "a: [b\nc: d\n", 1, "close the bracket"},
		{"rubbish", "a: b\n\x01\x02 : [", 2, "control character 0x01"},
		{"zero bytes", "services:\x00", 1, "control character 0x00"},
		{"UTF-16", "\xff\xfes\x00e\x00", 0, "is UTF-16 text: save it as UTF-8"},
		{"a tab", "services:\n\tweb: {image: a}\n", 2, "a tab cannot indent: use spaces"},
		{"not UTF-8", "services: \xff\xfe", 1, "byte 0xff is not UTF-8"},
		{"a kustomization", "resources:\n- a.yaml\n", 1, "kustomize build"},
		{"a text", "hello", 1, "is neither a compose file"},
		{"a list", "- services\n", 1, "is neither a compose file"},
		{"a descriptor of Verge", "application: a\nservices: {a: {command: [x]}}\n", 1,
			"is a descriptor of Verge already"},
		{"10 MB", "services:\n" + strings.Repeat("# filler\n", 10<<20/9), 0, "has more than 2 MiB"},
		{"a bomb", importertest.Bomb(), 1, "expands to too much"},
		{"a bomb of merges", mergeBomb(), 1, "expands to too much"},
		{"a snake", "services: &a\n  x: *a\n", 1, "contains itself"},
		{"an unknown alias", "services: *nobody\n", 1, "unknown anchor"},
		{"deep", "services: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), 1,
			"is nested more than 100 levels deep"},
		{"a key twice", "services:\n  web: {image: a}\n  db: {image: b}\n  web: {image: c}\n", 4,
			`the key "web" is in line 2 already`},
		{"a key of a list", "services:\n  ? [a]\n  : b\n", 2, "a key is not text"},
		{"a tag", "services: !reset {}\n", 1,
			`the tag "!reset" is not understood: let docker compose put the files into one: docker compose config`},
		{"another tag", "services: !mine {}\n", 1, `the tag "!mine" is not understood: leave it out`},
		{"many documents", strings.Repeat("---\na: b\n", 2100), 4002, "has more than 2000 documents"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			importertest.Refused(t, c.text, c.line, c.why)
		})
	}
}

func mergeBomb() string {
	var b strings.Builder
	b.WriteString("services:\n  a0: &a0 {k: v}\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d {l: *a%d, <<: *a%d, m: *a%d}\n", i, i, i-1, i-1, i-1)
	}
	return b.String()
}

// TestOneOfSeveralIsWrong: then nothing is made.
func TestOneOfSeveralIsWrong(t *testing.T) {
	good := importer.Source{Name: "good.yaml", Data: []byte("services: {a: {image: b}}"), Folder: "good"}
	bad := importer.Source{Name: "bad.yaml", Data: []byte("services: {a: {imagee: b}}"), Folder: "bad"}
	if res, err := importer.Import([]importer.Source{good, bad}, importer.Options{}); !errors.Is(err,
		importer.ErrRefused) || len(res.Apps) != 0 {
		t.Errorf("%v, %v", err, res.Apps)
	}
	res, err := importer.Import([]importer.Source{good, good}, importer.Options{})
	if !errors.Is(err, importer.ErrRefused) {
		t.Errorf("the same name twice: %v", err)
	}
	importertest.Says(t, res, importer.Refused, 1, "makes the application good")
	good2 := good
	good2.Folder = "other"
	if res, err := importer.Import([]importer.Source{good, good2}, importer.Options{Namespace: "team-a"}); err != nil ||
		len(res.Apps) != 2 || !strings.Contains(string(res.Apps[1].Source), "namespace: team-a") {
		t.Errorf("%v, %v", err, res.Notes)
	}
}
