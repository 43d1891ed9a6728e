package records

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"
)

// sample is a record as those of the tiers are.
type sample struct {
	ID     string            `json:"id"`
	Ports  map[string]int    `json:"ports,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	List   []string          `json:"list,omitempty"`
	Since  time.Time         `json:"since"`
}

func newSample() *sample {
	return &sample{
		ID: "shop.web.0", Ports: map[string]int{"http": 8080}, Labels: map[string]string{"disk": "ssd", "rack": "7"},
		List: []string{"a", "b", "c"}, Since: time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC),
	}
}

func TestSame(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*sample)
		same   bool
	}{
		"alike":                         {func(*sample) {}, true},
		"nothing instead of an empty":   {func(s *sample) { s.List = nil }, false},
		"the same time in another zone": {func(s *sample) { s.Since = s.Since.In(time.FixedZone("UTC", 0)) }, true},
		"another value in a map":        {func(s *sample) { s.Labels["rack"] = "8" }, false},
	} {
		a, b := newSample(), newSample()
		tc.change(b)
		if Same(a, b) != tc.same {
			t.Errorf("%s: %v", name, !tc.same)
		}
	}
	// What is not stored makes no difference.
	a, b := newSample(), newSample()
	a.List, b.List = nil, []string{}
	if !Same(a, b) {
		t.Error("an empty list, which is not stored, makes a difference")
	}
}

// A copy shares all that it points to; with one field changed it does so no more.
func TestSameOfACopy(t *testing.T) {
	a := newSample()
	b := *a
	if !Same(a, &b) || !identical(a, &b) {
		t.Error("a copy is another")
	}
	b.ID = "shop.web.1"
	if Same(a, &b) || Same(a, (*sample)(nil)) || Same((*sample)(nil), a) {
		t.Error("what differs is the same")
	}
	if identical(a, &a) || identical(1, 1) || identical(nil, nil) {
		t.Error("other types have the same bits")
	}
}

type (
	upper string // is written in capitals
	outer struct {
		inner
		*beyond
		Own    int    `json:"own"`
		Hidden int    `json:"-"`
		Loud   upper  `json:"loud"`
		Twice  string `json:"twice"`
		Tagged inner  `json:"tagged"`
		secret int
	}
	inner struct {
		Deep  bool   `json:"deep"`
		Twice string `json:"twice"`
	}
	beyond struct {
		Far int `json:"far"`
	}
)

func (u upper) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(string(u))), nil }

// What differs without being encoded differs when it is, whatever the fields are.
func TestDifferIsNotSame(t *testing.T) {
	same := func(a, b *outer) bool {
		x, err := json.Marshal(a)
		y, err2 := json.Marshal(b)
		return err == nil && err2 == nil && string(x) == string(y)
	}
	for name, tc := range map[string]struct {
		change func(*outer)
		differ bool
	}{
		"nothing":               {func(*outer) {}, false},
		"a number":              {func(o *outer) { o.Own = 1 }, true},
		"embedded":              {func(o *outer) { o.Deep = true }, true},
		"not stored":            {func(o *outer) { o.Hidden, o.secret = 1, 1 }, false},
		"written alike":         {func(o *outer) { o.Loud = "A" }, false},
		"what hides another":    {func(o *outer) { o.Twice = "x" }, true},
		"what is hidden":        {func(o *outer) { o.inner.Twice = "x" }, false},
		"behind a pointer":      {func(o *outer) { o.beyond = &beyond{1} }, false},
		"in a struct of a name": {func(o *outer) { o.Tagged.Deep = true }, false},
	} {
		a, b := &outer{Loud: "a"}, &outer{Loud: "a"}
		tc.change(b)
		if got := differ(a, b); got != tc.differ || got && same(a, b) || differ(*a, *b) != got {
			t.Errorf("%s: differ %v, as stored they are the same: %v", name, got, same(a, b))
		}
		if Same(a, b) != same(a, b) {
			t.Errorf("%s: Same says %v", name, Same(a, b))
		}
	}
	if x, y := (sample{ID: "\xff"}), (sample{ID: "\xfe"}); differ(x, y) || !Same(x, y) {
		t.Error("texts that are written alike differ")
	}
	if differ(&sample{}, (*sample)(nil)) || differ(nil, nil) || differ(1, 2) {
		t.Error("what is no struct differs")
	}
}

// BenchmarkSameNot compares what differs in a number.
func BenchmarkSameNot(b *testing.B) {
	b.ReportAllocs()
	x, y := newSample(), newSample()
	y.ID = "shop.web.1"
	for b.Loop() {
		if Same(x, y) {
			b.Fatal("the same")
		}
	}
}

func BenchmarkSame(b *testing.B) {
	b.ReportAllocs()
	x, y := newSample(), newSample()
	for b.Loop() {
		if !Same(x, y) {
			b.Fatal("not the same")
		}
	}
}

func TestMergedIsWhatMergeLeaves(t *testing.T) {
	a, b, c := newSample(), newSample(), newSample()
	stored, changes := map[string]*sample{"kept": a, "changed": a, "gone": a}, map[string]*sample{"changed": b, "gone": nil, "new": c, "never": nil}
	got := maps.Collect(Merged(stored, changes))
	Merge(stored, changes)
	if !maps.Equal(got, stored) || len(got) != 3 {
		t.Errorf("got %v, want %v", got, stored)
	}
	for range Merged(stored, changes) {
		break // which must not panic
	}
}
