package records

import (
	"maps"
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
