package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Who measures one part keeps what the page has of the other.
func TestPageKeepsTheOtherPart(t *testing.T) {
	out := filepath.Join(t.TempDir(), "page.md")
	measured := func(part string, value float64) string {
		b := &measurer{options: options{out: out, settle: time.Minute, span: time.Minute},
			sections: map[string]string{}}
		b.Most(value, 50, "ms", "figure of the %s", part)
		b.sections[part] = b.section("a machine", "1.5")
		if err := b.write(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	measured(partRoles, 11)
	measured(partContainers, 22)
	page := measured(partRoles, 33)
	for row, want := range map[string]int{
		"| figure of the roles | 11 | ms | ≤ 50 | yes |": 0, "| figure of the roles | 33 | ms | ≤ 50 | yes |": 1,
		"| figure of the containers | 22 | ms | ≤ 50 | yes |": 1, "## Containers\n": 1, "## Method\n": 1,
		"# What Verge costs\n": 1,
	} {
		if n := strings.Count(page, row); n != want {
			t.Errorf("%q is there %d times, not %d:\n%s", row, n, want, page)
		}
	}
	if again := measured(partRoles, 33); again != page {
		t.Errorf("measured alike the page is another:\n%s", again)
	}
}

// The page is what the command makes of its figures: nobody edits it by hand.
func TestPageIsMade(t *testing.T) {
	const page = "../../docs/footprint.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	b := &measurer{options: options{settle: time.Minute, span: time.Minute}, sections: map[string]string{
		partRoles: kept(string(text), partRoles), partContainers: kept(string(text), partContainers)}}
	if made := b.page(); made != string(text) {
		t.Errorf("%s is not what make footprint makes of its figures:\n%s", page, made)
	}
}
