package counters

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// Answers are the durations of a service's requests by how they were answered.
type Answers struct {
	by atomic.Pointer[map[answer]*Durations] // replaced as a whole
}

// answer is one way to answer: the method of the request ("_OTHER" for one that
// is not a standard's) and the status. The zero value is all others together.
type answer struct {
	method string
	status int
}

// maxAnswers of a service that are told apart: what a program answers may be
// anything.
const maxAnswers = 32

// StatusClosed is what is counted where the client left before an answer, under
// the number that other proxies write into their logs.
const StatusClosed = 499

// Observe counts an answer and how long it took.
func (a *Answers) Observe(method string, status int, d time.Duration) {
	key := answer{knownMethod(method), status}
	for {
		now := a.by.Load()
		if now != nil {
			if h := (*now)[key]; h != nil {
				h.Observe(d)
				return
			}
			if len(*now) >= maxAnswers && key != (answer{}) {
				key = answer{}
				continue
			}
		}
		next := map[answer]*Durations{key: {}}
		if now != nil {
			maps.Copy(next, *now)
		}
		a.by.CompareAndSwap(now, &next) // who was faster is found in the next round
	}
}

// knownMethod bounds what a client can make of a label.
func knownMethod(method string) string {
	switch method {
	case "GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE":
		return method
	}
	return "_OTHER"
}

// AnswerStats are the durations of requests by how they were answered.
type AnswerStats struct {
	// Method is "_OTHER" for one that is not a standard's. It is "" and Status 0
	// for all ways to answer together that are beyond the bound.
	Method string
	Status int // 499: the client left before
	Histogram
}

// Read returns what was counted, in order of method and status.
func (a *Answers) Read() []AnswerStats {
	by := a.by.Load()
	if by == nil {
		return nil
	}
	out := make([]AnswerStats, 0, len(*by))
	for k, h := range *by {
		out = append(out, AnswerStats{Method: k.method, Status: k.status, Histogram: h.Read()})
	}
	slices.SortFunc(out, func(x, y AnswerStats) int {
		return cmp.Or(cmp.Compare(x.Method, y.Method), cmp.Compare(x.Status, y.Status))
	})
	return out
}
