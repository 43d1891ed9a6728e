package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced  = regexp.MustCompile("(?s)```.*?```")
	// sent is a string of the code that sends people to a page.
	sent = regexp.MustCompile(`^(docs/[A-Za-z]+\.md|[A-Z]+\.md)(?:#(.*))?$`)
)

// pages are the texts of the module's pages by path.
type pages map[string]string

// readPages reads all of the module.
func readPages(root string) (pages, error) {
	out := pages{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(p) != ".md" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		page, err := filepath.Rel(root, p)
		out[filepath.ToSlash(page)] = string(text)
		return err
	})
	return out, err
}

// hasAnchor says whether a heading of the page makes the anchor, as GitHub does.
func (ps pages) hasAnchor(page, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(ps[page], ""), -1) {
		made := strings.Map(func(r rune) rune {
			switch {
			case r == ' ' || r == '-':
				return '-'
			case r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
				return r
			}
			return -1
		}, strings.ToLower(strings.TrimSpace(m[1])))
		if made == anchor {
			return true
		}
	}
	return false
}

// deadLinks wants each link that stays in the repository to lead to a file, and to a
// heading of it where it names one.
func (ps pages) deadLinks(exists func(path string) bool) []finding {
	var out []finding
	for page, text := range ps {
		// Code keeps its lines and loses what looks like links.
		text = fenced.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
		for i, line := range strings.Split(text, "\n") {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, anchor, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				to := page
				if target != "" {
					to = path.Join(path.Dir(page), target)
				}
				if !exists(to) || anchor != "" && !ps.hasAnchor(to, anchor) {
					out = append(out, finding{page, i + 1, fmt.Sprintf("links to %s, which is not there", m[1])})
				}
			}
		}
	}
	return out
}

// sentPages wants each place in the pages that code sends people to, as a finding of
// verge doctor does, to exist. The second result is how many there are.
func (ps pages) sentPages(files []*file) ([]finding, int) {
	var out []finding
	n := 0
	for _, f := range parsed(files) {
		if f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(node ast.Node) bool {
			lit, ok := node.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			text, _ := strconv.Unquote(lit.Value) // the parser has accepted it
			m := sent.FindStringSubmatch(text)
			if m == nil {
				return true
			}
			n++
			if _, ok := ps[m[1]]; !ok || m[2] != "" && !ps.hasAnchor(m[1], m[2]) {
				out = append(out, finding{f.path, f.line(lit), fmt.Sprintf("sends people to %s, which is not there", text)})
			}
			return true
		})
	}
	return out, n
}

func TestLinksLeadSomewhere(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	ps, err := readPages(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(ps) < 10 {
		t.Errorf("only %d pages found", len(ps))
	}
	for _, f := range ps.deadLinks(func(p string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(p)))
		return err == nil
	}) {
		t.Error(f)
	}
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	found, n := ps.sentPages(files)
	for _, f := range found {
		t.Error(f)
	}
	if n < 8 {
		t.Errorf("code sends people to %d places: they are not recognised, or they are gone", n)
	}
}

func TestLinksLeadSomewhereFindsViolations(t *testing.T) {
	ps := pages{
		"README.md": "# A\n\n[b](docs/b.md) [its part](docs/b.md#part-1-of-2) [here](#a) [out](https://example.org/x#y)\n" +
			"```\n[code](gone.md)\n```\n[gone](docs/gone.md) [no part](docs/b.md#part)",
		"docs/b.md": "## Part 1 (of 2)\n[up](../README.md#a) [up](README.md)",
	}
	var got []string
	for _, f := range ps.deadLinks(func(p string) bool { _, ok := ps[p]; return ok }) {
		got = append(got, f.String())
	}
	if len(got) != 3 {
		t.Errorf("found %q, want two in README.md:7 and one in docs/b.md:2", got)
	}
	found, n := ps.sentPages([]*file{parse("a/a.go", `package a
var x, y, z = "docs/b.md#part-1-of-2", "docs/b.md#gone", "docs/c.md"`)})
	if len(found) != 2 || n != 3 {
		t.Errorf("found %v of %d, want the second and third of 3", found, n)
	}
}

// maxParagraph is how many words a paragraph, an item or a row of a DESIGN page has at most:
// beyond that it has more than one idea.
const maxParagraph = 100

// paragraph begins where a line is empty, or begins an item, a row or a heading.
var paragraph = regexp.MustCompile(`\n\s*\n|\n(\s*(?:[-*|#]|\d+\.) )`)

// picture is a fenced block, or an indented one with an arrow or a line.
var picture = regexp.MustCompile("(?m)^```|^    .*[→─►←◄▶]")

// heavyDesigns wants DESIGN pages to have a picture and short paragraphs.
func (ps pages) heavyDesigns() []finding {
	var out []finding
	for page, text := range ps {
		if path.Base(page) != "DESIGN.md" {
			continue
		}
		if !picture.MatchString(text) {
			out = append(out, finding{page, 1, "has no picture: draw how the pieces meet"})
		}
		text = fenced.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
		at := 0
		for _, end := range append(paragraph.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
			if n := len(strings.Fields(text[at:end[0]])); n > maxParagraph {
				line := 1 + strings.Count(text[:at], "\n")
				out = append(out, finding{page, line, fmt.Sprintf("a paragraph of %d words: part it, or make it a table", n)})
			}
			at = end[0]
		}
	}
	return out
}

func TestDesignPagesAreLight(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	ps, err := readPages(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ps.heavyDesigns() {
		t.Error(f)
	}
}

func TestDesignPagesAreLightFindsViolations(t *testing.T) {
	words := strings.Repeat("word ", maxParagraph+1)
	for text, want := range map[string]int{
		"# a\n\n```\na ── b\n```\n" + words[5:]:                   0,
		"# a\n\n    a → b\n\n- short\n- " + words[10:] + "\n":     0,
		"# a\n\n```\na ── b\n```\n\n" + words:                     1,
		"# a\n\n```\n" + words + "\n```\n| " + words + " | a |\n": 1,
		"# a\n\n" + words: 2,
	} {
		if got := (pages{"a/DESIGN.md": text, "docs/a.md": words}).heavyDesigns(); len(got) != want {
			t.Errorf("found %v, want %d, in %.40q", got, want, text)
		}
	}
}
