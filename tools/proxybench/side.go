package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/tools/bench"
)

// latency compares what proxies add to a request at a modest rate.
func (b *measurer) latency(what string, ours func() (*target, error), reach float64) ([]row, error) {
	theirs, err := b.haproxy()
	if err != nil {
		return nil, err
	}
	defer b.end(theirs)
	mine, err := ours()
	if err != nil {
		return nil, err
	}
	defer b.end(mine)
	w := workload{request: get("/"), conns: 32, rate: 2000}
	targets := []*target{{addr: b.upstream}, theirs, mine}
	for _, t := range targets {
		if t.clients, err = connect(t.addr, w); err != nil {
			return nil, err
		}
		defer t.clients.close()
	}
	quantiles := []float64{0.5, 0.99}
	added := make([][2][]float64, len(quantiles)) // by quantile, theirs and ours
	ratios := make([][]float64, len(quantiles))
	for range b.o.rounds {
		var q [3][]float64
		for i, t := range targets {
			_, took, err := t.clients.run(b.ctx, w, b.o.span)
			if err != nil {
				return nil, err
			}
			if len(took) == 0 {
				return nil, fmt.Errorf("no request was answered in %s", b.o.span)
			}
			slices.Sort(took)
			for _, p := range quantiles {
				q[i] = append(q[i], float64(took[int(p*float64(len(took)-1))])/float64(time.Microsecond))
			}
		}
		for k := range quantiles {
			x, y := q[1][k]-q[0][k], q[2][k]-q[0][k]
			added[k][0], added[k][1] = append(added[k][0], x), append(added[k][1], y)
			ratios[k] = append(ratios[k], y/max(x, 1))
		}
	}
	var rows []row
	for k, p := range quantiles {
		m := bench.Median(ratios[k])
		rows = append(rows, row{
			What: fmt.Sprintf("%s, p%.0f", what, 100*p), Unit: "µs", Theirs: bench.Median(added[k][0]),
			Ours:  bench.Median(added[k][1]),
			Ratio: m, Reach: fmt.Sprintf("≤ %.2f ×", reach), OK: m <= reach,
		})
	}
	return rows, nil
}

// memory compares what idle connections hold.
func (b *measurer) memory(what string, ours func() (*target, error)) ([]row, error) {
	const conns, reach = 2000, 40
	r := row{What: what, Unit: "MB", Reach: fmt.Sprintf("≤ %d MB", reach)}
	for i, begin := range []func() (*target, error){b.haproxy, ours} {
		t, err := begin()
		if err != nil {
			return nil, err
		}
		defer b.end(t)
		c, err := connect(t.addr, workload{request: get("/"), conns: conns})
		if err != nil {
			return nil, err
		}
		defer c.close()
		for _, send := range c.send {
			if err := send(); err != nil {
				return nil, err
			}
		}
		_ = bench.Pause(b.ctx, 2*time.Second)
		sum := int64(0)
		for _, p := range t.processes {
			n, err := p.rss()
			if err != nil {
				return nil, err
			}
			sum += n
		}
		mb := float64(sum) / (1 << 20)
		if i == 0 {
			r.Theirs = mb
		} else {
			r.Ours, r.OK = mb, mb <= reach
		}
	}
	return []row{r}, nil
}
