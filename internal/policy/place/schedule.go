package place

import (
	"github.com/verge-edge/verge/internal/wire"
)

// Schedule is the cluster's step: it chooses a worker for one instance. Workers
// are filtered in the order suspect, cordoned, pinned, runtime, architecture,
// affinity.labels, location, affinity.polygon, anti_affinity.labels,
// anti_affinity.service, volumes, device types, network, avoid, latency, distance, devices,
// then the resources (cpu, memory, disk, vgpus, vtpus, bandwidth in and out); of the
// others the first by
//
//  1. how many instances of the service it has, fewest first (unless
//     Request.Spread is "none"),
//  2. the sum of the expected round trips to what it wishes to be near, with the
//     scheduler ldp also to what it must be near, shortest first,
//  3. the score of the scheduler. That of rom, and of ldp, is the largest share of any
//     of its resources that would be left over, smallest first (best fit), of bandwidth
//     only where the instance asks for it; for who asks for accelerators it is how much
//     would go to waste of them and of what they need (unmatched). Whoever has
//     accelerators for which it does not ask comes after all others (+1), so that those
//     stay free for who does. The others are in schedulers.go. With throughput and drf
//     it counts before the number of instances,
//  4. the place of its id on a ring of hashes: who comes next after the place of the
//     instance id, then the worker id
//
// is chosen; with the scheduler plugin see advised. A worker to be avoided stays out
// even where no other is left; when to forgive it is the caller's decision. Workers' ids must be distinct. The cost is
// one
// pass; only a record that carries its inputs (MaxInputs) copies them.
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
	how := scorerOf(req.Scheduler)
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
