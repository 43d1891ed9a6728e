package doctor

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	page    = regexp.MustCompile(`^(docs/[A-Za-z]+\.md|[A-Z]+\.md)(?:#(.*))?$`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fenced  = regexp.MustCompile("(?s)```.*?```")
)

// anchors of a page, as they are made of its headings.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{"": true}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
		var b strings.Builder
		for _, r := range strings.ToLower(strings.TrimSpace(m[1])) {
			switch {
			case r == ' ' || r == '-':
				b.WriteByte('-')
			case r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r > 127:
				b.WriteRune(r)
			}
		}
		out[b.String()] = true
	}
	return out
}

// Each place in the documentation that a finding, or another part of the code,
// sends people to is there, and so is each that the pages send them to.
func TestPagesExist(t *testing.T) {
	root := filepath.Join("..", "..")
	known := map[string]map[string]bool{}
	has := func(file, anchor string) bool {
		if known[file] == nil {
			if _, err := os.Stat(file); err != nil {
				return false
			}
			known[file] = anchors(t, file)
		}
		return known[file][anchor]
	}
	n := 0
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var s scanner.Scanner
		fset := token.NewFileSet()
		s.Init(fset.AddFile(path, -1, len(src)), src, nil, 0)
		for {
			_, tok, lit := s.Scan()
			if tok == token.EOF {
				return nil
			}
			text, err := strconv.Unquote(lit)
			if tok != token.STRING || err != nil {
				continue
			}
			if m := page.FindStringSubmatch(text); m != nil {
				if n++; !has(filepath.Join(root, filepath.FromSlash(m[1])), m[2]) {
					t.Errorf("%s sends people to %s, which is not there", path, text)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 8 {
		t.Errorf("only %d places were found", n)
	}
	for _, file := range []string{"README.md", "SCOPE.md", "docs/concepts.md", "docs/operations.md", "docs/descriptor.md"} {
		file = filepath.Join(root, filepath.FromSlash(file))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := file
			if target != "" {
				to = filepath.Join(filepath.Dir(file), filepath.FromSlash(target))
			}
			if _, err := os.Stat(to); err != nil || anchor != "" && !has(to, anchor) {
				t.Errorf("%s links to %s, which is not there", file, m[1])
			}
		}
	}
}
