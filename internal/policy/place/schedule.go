package place

import (
	"github.com/verge-edge/verge/internal/wire"
)

// Schedule is the cluster's step: it chooses a worker for one instance. Workers are
// filtered in the order suspect, cordoned, pinned, runtime, architecture,
// affinity.labels, location, affinity.polygon, anti_affinity.labels,
// anti_affinity.service (or ports), volumes, user, device types, network, avoid, latency,
// distance, devices, then the resources (cpu, memory, disk, vgpus, vtpus, bandwidth in and
// out). The rest are ordered by
//
//  1. how many instances of the service they have, fewest first (unless
//     Request.Spread is "none"),
//  2. the sum of the expected round trips to what the instance wishes to be near, with
//     the scheduler ldp also to what it must be near, shortest first,
//  3. the score of the scheduler. That of rom and ldp is the largest share of any of the
//     worker's resources that would be left over, smallest first (best fit); bandwidth
//     counts only if requested. For an instance that requests accelerators it is how much
//     of them and of what they need would go to waste. Workers with accelerators that
//     are not requested come last (+1), so that those stay free. Where the cluster says
//     what instances ask for as a rule (Request.Usual), rom's counts what becomes useless
//     to these, see package waste. The other scores are in schedulers.go. With throughput and drf the score counts before
//     the number of instances,
//  4. the position of their id on a hash ring, starting at that of the instance id, then
//     the worker id
//
// and the first is chosen; for the scheduler plugin see advised. A worker to avoid is
// excluded even if no other is left; the caller decides when to forgive it. Workers' ids
// must be distinct. The cost is one pass; inputs are copied only for a record that carries
// them (MaxInputs).
func Schedule(workers []WorkerView, req Request) Decision {
	req = cleanRequest(req)
	d := Decision{V: wire.Version, Kind: KindWorker, Request: req, Candidates: len(workers)}
	if len(workers) <= MaxInputs {
		d.Workers = cleanWorkers(workers, &req)
		workers = d.Workers
	} else {
		d.InputsOmitted = len(workers)
	}
	if req.Scheduler == schedulerPlugin {
		return advised(workers, req, d)
	}
	if req.Scheduler == NearestDemand && req.Traffic != nil {
		return nearest(workers, req, d)
	}
	how := scorerOf(&d.Request)
	if how == nil {
		d.Reason = noScheduler(req.Scheduler)
		return d
	}

	s := newScan(how, &d.Request)
	for i := range workers {
		s.look(&workers[i], &workers[i])
	}
	d.conclude(how, s.best[:s.n], s.log)
	return d
}
