package place

import (
	"slices"
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/index"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// Assignment is an instance that Contend placed: Contender is an index, and Instance
// counts from 0 for each contender.
type Assignment struct {
	Contender, Instance int
	Worker              string
}

// Contend decides a whole round at once, as a cluster does instance by instance: the next
// contender places an instance by the Request of its service. request is called once per
// contender; Instance becomes the name of the service and a number. The assignments are in
// the order of placement. The workers are not changed; Same and Conflicts must be empty, as
// they depend on the service. Scores ignore Latency.
//
// No records are made. 300 services on 40 workers take milliseconds.
func Contend(workers []WorkerView, contenders []turn.Contender, request func(i int) Request) []Assignment {
	var total api.Resources
	rows, devices := make([]index.Row, len(workers)), make([][]device.Device, len(workers))
	for i := range workers {
		devices[i] = slices.Clone(workers[i].Devices)
		for k := range devices[i] {
			devices[i][k].Used = min(max(0, devices[i][k].Used), device.Whole)
		}
		rows[i] = newRow(&workers[i], 0)
		if !workers[i].Suspect {
			total = amount.Add(total, amount.Clean(workers[i].Capacity))
		}
	}
	type asking struct {
		req    Request
		how    *scorer
		demand amount.Vec
		fits   []int // indexes of the workers that satisfy the constraints
		same   []int // by index
		placed int
		// devices: it needs some
		devices bool
	}
	all := make([]asking, len(contenders))
	for i := range contenders {
		a := &all[i]
		a.req = cleanRequest(request(i))
		a.how, a.demand, a.same = scorerOf(&a.req), amount.ToVec(a.req.Demand), make([]int, len(rows))
		a.devices = device.Needed(a.demand, a.req.Devices)
		avoid := map[string]bool{}
		for _, id := range a.req.Avoid {
			avoid[id] = true
		}
		for w := range workers {
			if a.how == nil {
				break
			}
			if r := reject(&workers[w], &a.req, avoid, amount.Vec{}, amount.Vec{}); r.filter == passed {
				a.fits = append(a.fits, w)
			}
		}
	}
	round := turn.NewRound(total, nil, contenders)
	var out []Assignment
	for i := round.Next(); i >= 0; i = round.Next() {
		a := &all[i]
		id := contenders[i].Service + "." + strconv.Itoa(a.placed)
		seed := index.RingOf(id)
		best, found := candidate{}, -1
		for _, w := range a.fits {
			r := &rows[w]
			if amount.FirstShort(&a.demand, &r.Free) >= 0 {
				continue
			}
			if a.devices {
				if _, lacking := device.Give(devices[w], a.req.Demand, a.req.Devices); lacking != "" {
					continue
				}
			}
			c := candidate{view: &workers[w], key: r.Hash - seed}
			a.how.judge(&c, fit{capacity: r.Capacity, free: r.Free, demand: a.demand,
				throughput: cleanRate(workers[w].Throughput)}, a.same[w], a.req.Spread != "none")
			if found < 0 || c.before(&best) {
				best, found = c, w
			}
		}
		if found < 0 {
			round.Leave()
			continue
		}
		for j, d := range a.demand {
			rows[found].Free[j] -= d
		}
		if a.devices {
			held, _ := device.Give(devices[found], a.req.Demand, a.req.Devices)
			hold(devices[found], held)
		}
		a.same[found]++
		out = append(out, Assignment{i, a.placed, workers[found].ID})
		a.placed++
		round.Placed()
	}
	return out
}

// hold marks the held shares of devices as used.
func hold(devices []device.Device, held []wire.Held) {
	for _, h := range held {
		if k := slices.IndexFunc(devices, func(d device.Device) bool { return d.ID == h.ID }); k >= 0 {
			devices[k].Used = min(devices[k].Used+h.Share, device.Whole)
		}
	}
}
