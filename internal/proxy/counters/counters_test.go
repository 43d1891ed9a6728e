package counters

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// Each span of time is in the first bucket whose bound it does not exceed.
func TestHistogram(t *testing.T) {
	var h Durations
	for _, d := range []time.Duration{0, 5 * time.Millisecond, 6 * time.Millisecond, 10 * time.Second, time.Minute} {
		h.Observe(d)
	}
	got := h.Read()
	if got.Counts[0] != 2 || got.Counts[1] != 1 || got.Counts[len(Bounds)-1] != 1 || got.Counts[len(Bounds)] != 1 ||
		got.Sum != time.Minute+10*time.Second+11*time.Millisecond {
		t.Errorf("%+v", got)
	}
	if buckets != len(Bounds)+1 {
		t.Errorf("%d buckets for %d bounds", buckets, len(Bounds))
	}
}

// What clients and programs make of methods and statuses is bounded.
func TestAnswersAreBounded(t *testing.T) {
	var a Answers
	for i := range 3 * maxAnswers {
		a.Observe("BREW"+strconv.Itoa(i), 200+i, time.Millisecond)
	}
	a.Observe("GET", 200, time.Millisecond)
	got := a.Read()
	if len(got) != maxAnswers+1 || got[0].Method != "" || got[0].Status != 0 {
		t.Fatalf("%d kinds, first %+v", len(got), got[0])
	}
	var all uint64
	for _, x := range got {
		if x.Method != "_OTHER" && x.Method != "" {
			t.Errorf("method %q", x.Method)
		}
		all += x.Counts[0]
	}
	if all != 3*maxAnswers+1 {
		t.Errorf("%d of %d are counted", all, 3*maxAnswers+1)
	}
}

func BenchmarkObserve(b *testing.B) {
	var a Answers
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			a.Observe(http.MethodGet, 200, 3*time.Millisecond)
		}
	})
}
