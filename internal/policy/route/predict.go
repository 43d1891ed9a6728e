package route

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
)

// From is a source of requests.
type From struct {
	// Name of the worker, for people.
	Name string
	// Share of all requests, in any unit; a value that is not positive and finite sends none.
	Share float64
	// View from there.
	View View
}

// Prediction is the effect of a policy on the requests of a service.
type Prediction struct {
	// Mean is the mean round trip to the replica of all requests whose distance is known.
	Mean time.Duration
	// Unknown is the share of the requests whose distance is not known.
	Unknown float64
	// Imbalance is the standard deviation over the replicas of their shares of all requests: 0 is
	// even (proxy-mity, figure 11). Even is the share that each would have then, Most the largest
	// share.
	Imbalance, Even, Most float64
	// Replicas by their share, the largest first.
	Replicas []Share
	// Means are the means of each From, in order; 0 if nothing is known.
	Means []time.Duration
}

// Share of one replica.
type Share struct {
	ID    string
	Share float64
}

// Predict says what p would do. Replicas that are usable in no view have a share of 0. An error
// means that p is invalid.
func Predict(p api.Policy, from []From) (Prediction, error) {
	out := Prediction{Means: make([]time.Duration, len(from))}
	policy, err := New(p, 0)
	if err != nil {
		return out, fmt.Errorf("predict: %w", err)
	}
	total := 0.0
	for _, f := range from {
		if f.Share > 0 && !math.IsInf(f.Share, 0) {
			total += f.Share
		}
	}
	shares := map[string]float64{}
	mean, known := 0.0, 0.0
	for k, f := range from {
		weights := policy.Weights(f.View)
		own, ownKnown := 0.0, 0.0
		part := 0.0
		if f.Share > 0 && !math.IsInf(f.Share, 0) {
			part = f.Share / total
		}
		for i, w := range weights {
			e := &f.View.Endpoints[i]
			shares[e.ID] += part * w
			if rtt, ok := e.distance(); ok {
				own += w * rtt
				ownKnown += w
			}
		}
		mean += part * own
		known += part * ownKnown
		if ownKnown > 0 {
			out.Means[k] = time.Duration(own / ownKnown)
		}
	}
	if known > 0 {
		out.Mean = time.Duration(mean / known)
	}
	if total > 0 {
		out.Unknown = max(0, 1-known)
	}
	out.spread(shares)
	return out, nil
}

// spread computes the statistics of the shares.
func (p *Prediction) spread(shares map[string]float64) {
	n := float64(len(shares))
	if n == 0 {
		return
	}
	sum := 0.0
	for id, s := range shares {
		p.Replicas = append(p.Replicas, Share{id, s})
		p.Most = max(p.Most, s)
	}
	slices.SortFunc(p.Replicas, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range p.Replicas { // in order, so that the sum is always the same
		sum += r.Share
	}
	p.Even = sum / n
	square := 0.0
	for _, r := range p.Replicas {
		square += (r.Share - p.Even) * (r.Share - p.Even)
	}
	p.Imbalance = math.Sqrt(square / n)
}
