package advisor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// MaxCalls of one plugin that are open.
	MaxCalls = 4
	// MaxPlugins of one cluster.
	MaxPlugins = 16
	// Answered is the result of a call that went well; others are plugin.Classes.
	Answered = "answered"
)

// Asker asks a plugin. Ask returns the verdicts by service, or a *plugin.Error when
// ctx ends at the latest.
type Asker interface {
	Ask(ctx context.Context, q plugin.Question) (map[string]plugin.Verdict, error)
	Close()
}

var _ Asker = (*plugin.HTTP)(nil)

// Advisor is a plugin that is registered. The lock of the model guards it.
type Advisor struct {
	Asker
	Config plugin.Config
	Open   int
	Calls  map[string]uint64 // by result
	Spared uint64            // instances that rom has placed while it rested
	// last is the last question that has ended, failure the last that failed; nil: none.
	Last, Failure *apiv1.PluginCall
	Took          obs.Histogram
}

// InstancesOf is how many instances the questions are about.
func InstancesOf(asks []*Ask) (n int) {
	for _, a := range asks {
		n += len(a.Instances)
	}
	return n
}

// Service is the application and service that the question is about.
func (a *Ask) Service() string { return a.Share.App + "." + a.Share.Service }

// Note counts a call, and remembers it.
func (p *Advisor) Note(q plugin.Question, err error, took time.Duration, now time.Time) {
	result := Answered
	if err != nil {
		result = plugin.Unreachable
		var e *plugin.Error
		if errors.As(err, &e) {
			result = e.Class
		}
	}
	p.Calls[result]++
	p.Last = &apiv1.PluginCall{At: now, Seconds: took.Seconds(), Result: result, Services: len(q.Services),
		Candidates: len(q.Candidates)}
	for i := range q.Services {
		p.Last.Instances += len(q.Services[i].Instances)
	}
	if q.Service != nil {
		p.Last.Services, p.Last.Instances = 1, len(q.Service.Instances)
	}
	if err != nil {
		p.Last.Problem, p.Failure = err.Error(), p.Last
	}
	n := 0
	for n < len(obs.Bounds) && took.Seconds() > obs.Bounds[n] {
		n++
	}
	p.Took.Counts[n]++
	p.Took.Sum += took.Seconds()
}

// Advice is what a plugin said about one instance.
func Advice(name, service string, id wire.InstanceID, verdicts map[string]plugin.Verdict, err error,
	took time.Duration) *place.Advice {
	out := &place.Advice{Plugin: name, TookNs: took.Nanoseconds()}
	v, has := verdicts[service]
	switch {
	case err != nil:
		out.Problem = err.Error()
		return out
	case !has:
		out.Problem = "it did not answer for " + service
		return out
	}
	out.Worker, out.Rejected, out.Reason = v.Placements[id], v.Rejected, v.Reason
	for _, r := range v.Ranking {
		out.Ranking = append(out.Ranking, place.Ranked{ID: r.ID, Score: *r.Score})
	}
	slices.SortStableFunc(out.Ranking, func(a, b place.Ranked) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	return out
}

// Candidate is a worker as a plugin sees it.
func Candidate(w place.WorkerView) plugin.Candidate {
	out := plugin.Candidate{ID: w.ID, Arch: w.Arch, Labels: w.Labels, Capacity: place.Amounts(w.Capacity),
		Free: place.Free(w)}
	if l := w.Location; l != nil {
		out.Location = []float64{l[0], l[1]}
	}
	return out
}
