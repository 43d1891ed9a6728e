package clonetest_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/bus/records/clonetest"
)

type record struct{ words []string }

type inner struct {
	list []int
	next *inner
}

type state struct {
	byName  map[string]*inner
	nested  map[string]map[string]int
	names   []string
	one     *inner
	memo    func()
	embeds  struct{ deep map[int]bool }
	records map[string]*record
	number  int
}

func immutable(_ string, t reflect.Type) bool { return t == reflect.TypeFor[*record]() }

func (s *state) clone() *state {
	c := *s
	c.byName, c.nested, c.records = map[string]*inner{}, map[string]map[string]int{}, maps.Clone(s.records)
	for k, v := range s.byName {
		c.byName[k] = &inner{list: slices.Clone(v.list)}
	}
	for k, v := range s.nested {
		c.nested[k] = maps.Clone(v)
	}
	c.names, c.one, c.memo = slices.Clone(s.names), nil, nil
	c.embeds.deep = maps.Clone(s.embeds.deep)
	return &c
}

// Whatever is forgotten in a clone is found.
func TestShared(t *testing.T) {
	for want, forget := range map[string]func(c, s *state){
		"":                    func(*state, *state) {},
		"state.byName":        func(c, s *state) { c.byName = s.byName },
		"state.byName[]":      func(c, s *state) { c.byName = maps.Clone(s.byName) },
		"state.byName[].list": func(c, s *state) { c.byName["x"].list = s.byName["x"].list },
		"state.byName[].next": func(c, s *state) { c.byName["x"].next = s.byName["x"].next },
		"state.nested[]":      func(c, s *state) { c.nested = maps.Clone(s.nested) },
		"state.names":         func(c, s *state) { c.names = s.names[:0] },
		"state.one":           func(c, s *state) { c.one = s.one },
		"state.memo":          func(c, s *state) { c.memo = s.memo },
		"state.embeds.deep":   func(c, s *state) { c.embeds = s.embeds },
		"state.records":       func(c, s *state) { c.records = s.records },
	} {
		s := &state{memo: func() {}}
		clonetest.Fill(s, immutable)
		c := s.clone()
		forget(c, s)
		if got := strings.Join(clonetest.Shared(s, c, immutable), " "); got != want {
			t.Errorf("shared are %q, want %q", got, want)
		}
	}
}

// Two values have the same text where they are the same, and only there.
func TestText(t *testing.T) {
	s := &state{names: []string{"a"}}
	clonetest.Fill(s, immutable)
	before := clonetest.Text(s, nil)
	if again := clonetest.Text(s, nil); again != before {
		t.Errorf("it has two texts:\n%s\n%s", before, again)
	}
	for n, change := range []func(){
		func() { s.number++ },
		func() { s.byName["x"].list[0]++ },
		func() { s.nested["x"]["y"] = 1 },
		func() { s.embeds.deep[7] = true },
		func() { s.records["x"].words = nil; s.records["y"] = &record{} },
	} {
		change()
		after := clonetest.Text(s, nil)
		if after == before {
			t.Errorf("change %d is not in the text: %s", n, after)
		}
		before = after
	}
}

// A record that was modified is found, one that was replaced is none.
func TestRecords(t *testing.T) {
	s := &state{records: map[string]*record{"a": {words: []string{"x"}}}}
	var r clonetest.Records
	if got := r.Check(s, immutable); len(got) > 0 {
		t.Error(got)
	}
	s.records["a"] = &record{words: []string{"y"}}
	if got := r.Check(s, immutable); len(got) > 0 {
		t.Error(got)
	}
	s.records["a"].words[0] = "z"
	if got := r.Check(s, immutable); len(got) != 1 || !strings.Contains(got[0], "state.records[]") {
		t.Error(got)
	}
}
