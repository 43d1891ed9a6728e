package compose_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// TestBadJoins: files that name others which cannot or must not be read are refused at
// their line, and files that name each other have an end.
func TestBadJoins(t *testing.T) {
	const one = "services: {a: {image: b}}\n"
	deep, many := importertest.Files{}, importertest.Files{}
	var list strings.Builder
	for i := range 150 {
		deep[fmt.Sprintf("f%d.yaml", i)] = fmt.Sprintf("include: [f%d.yaml]\n", i+1)
		many[fmt.Sprintf("f%d.yaml", i)] = fmt.Sprintf("services: {s%d: {image: b}}\n", i)
		fmt.Fprintf(&list, "- f%d.yaml\n", i)
	}
	big := importertest.Files{}
	for i := range 10 {
		big[fmt.Sprintf("f%d.yaml", i)] = one + strings.Repeat("#", importer.MaxSourceBytes-100)
	}
	for name, c := range map[string]struct {
		text string
		more importertest.Files
		file string
		line int
		why  string
	}{
		"missing":         {"include:\n- x.yaml\n", nil, "in.yaml", 2, "cannot be read below"},
		"absolute":        {"include: [/etc/x.yaml]\n", nil, "in.yaml", 1, "is not below the folder"},
		"above":           {"include: [a/../../x.yaml]\n", nil, "in.yaml", 1, "is not below the folder"},
		"home":            {"include: [~/x.yaml]\n", nil, "in.yaml", 1, "is not below the folder"},
		"remote":          {"include: ['https://example.org/x.yaml']\n", nil, "in.yaml", 1, "is not on this machine"},
		"git":             {"include: ['git@example.org:a/b.git']\n", nil, "in.yaml", 1, "is not on this machine"},
		"a variable":      {"include: ['${X}.yaml']\n", nil, "in.yaml", 1, "has a variable in it"},
		"several for one": {"include:\n- path: [a.yaml, b.yaml]\n", nil, "in.yaml", 2, "several files for one"},
		"nothing":         {"include: [[]]\n", nil, "in.yaml", 1, "names no file"},
		"itself":          {"include: [in.yaml]\n" + one, nil, "in.yaml", 1, "is included by itself"},
		"a circle": {"include: [x.yaml]\n" + one,
			importertest.Files{"x.yaml": "include: [sub/y.yaml]\n", "sub/y.yaml": "include:\n- ../x.yaml\n"},
			"sub/y.yaml", 2, "is included by itself"},
		"deep": {"include: [f0.yaml]\n", deep, "f9.yaml", 1, "more than 10 files deep"},
		"many": {"include:\n" + list.String(), many, "in.yaml", 102, "more than 100 other files"},
		"big": {"include:\n" + strings.Join(strings.SplitAfter(list.String(), "\n")[:10], ""), big,
			"in.yaml", 6, "more than 8 MiB together"},
		"rubbish": {"include: [x.yaml]\n", importertest.Files{"x.yaml": "a: [\n"}, "x.yaml", 2, ""},
		"a list": {"include: [x.yaml]\n", importertest.Files{"x.yaml": "- a\n"}, "in.yaml", 1,
			"is not a compose file"},
		"wrong services": {"include: [x.yaml]\n", importertest.Files{"x.yaml": "services: [a]\n"}, "x.yaml", 1,
			"must be a mapping"},
		"two of a name": {"include: [x.yaml]\nservices: {a: {image: c}}\n", importertest.Files{"x.yaml": one},
			"in.yaml", 1, "has services.a, and so has another file"},
		"wrong there": {"include: [x.yaml]\n" + one,
			importertest.Files{"x.yaml": "services:\n  z:\n    image: x\n    imagge: y\n"}, "x.yaml", 4,
			"is not a field"},
		"other variables": {"include: [x/c.yaml, y/c.yaml]\n",
			importertest.Files{"x/c.yaml": one, "y/c.yaml": one, "x/.env": "A=1\n", "y/.env": "A=2\n"}, "in.yaml", 1,
			"another value of ${A}"},
		"bad variables": {"include: [x/c.yaml]\n", importertest.Files{"x/c.yaml": one, "x/.env": "\x00"}, "in.yaml",
			1, "cannot be read: mend it"},
		"no base": {"services:\n  a:\n    extends:\n      file: x.yaml\n      service: nope\n",
			importertest.Files{"x.yaml": one}, "in.yaml", 4, `no service "nope"`},
		"no file": {"services:\n  a:\n    extends:\n      file: y.yaml\n      service: a\n", nil, "in.yaml",
			4, "cannot be read below"},
		"a circle of bases": {"services: {a: {extends: {file: x.yaml, service: a}}}\n",
			importertest.Files{"x.yaml": "services:\n  a:\n    extends: b\n  b:\n    extends: {file: x.yaml, service: a}\n"}, "x.yaml", 5, "extends itself"},
		"no image": {"services:\n  z:\n    extends: {file: x.yaml, service: a}\n",
			importertest.Files{"x.yaml": "services: {a: {restart: always}}\n"}, "in.yaml", 2,
			"neither an image nor a build, nor has what it extends"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := importer.Import([]importer.Source{{Name: "in.yaml", Data: []byte(c.text), Folder: "shop",
				Open: c.more.Open}}, importer.Options{})
			if !errors.Is(err, importer.ErrRefused) || len(res.Apps) > 0 {
				t.Errorf("it was not refused: %v", err)
			}
			if !slices.ContainsFunc(res.Notes, func(n importer.Note) bool {
				return n.Level == importer.Refused && n.File == c.file && n.Line == c.line &&
					strings.Contains(n.Text, c.why)
			}) {
				t.Errorf("no %q at %s:%d; there are %v", c.why, c.file, c.line, res.Notes)
			}
		})
	}
}

// TestIncludedOften: a file that is included on very many ways is read and taken once.
func TestIncludedOften(t *testing.T) {
	all := importertest.Files{"f8.yaml": "services: {last: {image: b}}\n"}
	for i := range 8 {
		all[fmt.Sprintf("f%d.yaml", i)] = "include: [" + strings.Repeat(fmt.Sprintf("f%d.yaml, ", i+1), 500) + "]\n"
	}
	res, err := importer.Import([]importer.Source{{Name: "in.yaml", Data: []byte(all["f0.yaml"]), Folder: "shop",
		Open: all.Open}}, importer.Options{})
	if err != nil || len(res.Apps) != 1 || !strings.Contains(string(res.Apps[0].Source), "last:") {
		t.Errorf("%v, %v", err, res.Notes)
	}
}
