// Package place decides where instances run, in two delegated steps: the root
// divides replicas over clusters, of which it knows only aggregates
// (RankClusters); a cluster chooses a worker for each instance from exact data
// (Schedule). Both are pure functions; Replay repeats one from its record.
//
// Promises:
//
//  1. The same inputs give the same Decision, in whatever order the candidates
//     are listed and on whatever machine.
//
//  2. A chosen worker fits: each resource demanded is free on it. A cluster is
//     never given more replicas than it is expected to take.
//
//  3. A cluster is passed over for lack of room only where it is proven that not
//     even one replica fits, or where what it was given just now is expected to
//     take what there was. So no capacity is overlooked for ever: at worst the
//     cluster is offered one replica and refuses it.
//
//  4. What could not be placed carries a Reason in words, with units.
//
//  5. Impossible inputs (negative, NaN, infinite) count as nothing free and
//     nothing demanded. Ids are distinct; that is for the caller to see to.
//
//  6. A cluster is passed over for a constraint (architecture, labels, location,
//     polygon, anti-affinity) only where its aggregate proves that none of its
//     ready workers satisfies it. What a cluster says of them is counts, a disc and
//     a ball, of a size that does not depend on how many they are (Describe). So it is
//     with what must be near; coordinates prove nothing, and only order clusters.
//
//  7. A Fleet, which keeps an index of the workers, decides as Schedule does over
//     the same workers, and leaves the same record.
//
// # Many workers
//
// Of 10,000 workers each decision would look at all, and so would a hundred more in
// the same second. A Fleet looks at the constraints of a request once, for all
// workers, and divides them by the first filter that removes them. Those that pass
// are in a B+ tree by the largest free share of any of their resources, which is
// what rom scores by. Each node has the bounds of what is below it (of each resource
// the least and the most that is free, and the capacities), so that whole subtrees are
// counted as full at once, and whole subtrees are passed over that cannot have the
// best. Workers that are alike stand side by side, in the order of the ring that
// breaks ties: the one to be chosen of thousands is found as if by its name. The
// numbers of the record stay exact. Where workers differ in everything, counting
// those that are full of another resource than the one they are sorted by looks at
// many of them; that is the only part whose cost grows with their number.
//
// Constraints, locations and areas among them, are looked at again only where a
// worker changes. Rejected: classes of workers that are alike in what requests ask
// for. It needs a rule for each constraint, and a label with a value of its own on
// each worker makes as many classes as workers.
//
// # Schedulers
//
// A scheduler is a score of one worker (scorer); everything else is the same for all,
// so each keeps the promises above. What contends by drf is ordered by a Round, which a
// cluster asks for each instance; Contend decides a whole round without records. Only
// rom is searched with bounds; the others look at all workers that fit, in the index.
// nearest-demand looks at the traffic of a service as a market: each request goes to the
// replica that answers it soonest, and a new one to where that makes most of them sooner.
//
// # Making room
//
// Whether instances of a lower priority could make room is told by sums, and by the most
// that any one worker would have free of each resource (wire.PriorityUse.Room): of the
// fleets of TestRoomThatCanBeMadeQuality in which none can make room the sums alone ask
// 93 % in vain, with that it is none.
//
// # Packages
//
// It has 4,700 lines and is one thing: a filter, a score or a target is looked at by the root, by a
// cluster, by its index, and in the words of a record, and all must agree. What stands by itself is
// below it:
//
//	place/amount     amounts of resources: arithmetic, shares, words
//	place/estimate   how many replicas fit into a cluster of which only an aggregate is known
//	place/geo        distances and areas on the Earth, balls of coordinates
//	place/index      the B+ tree of workers
//	place/turn       who is placed next: priorities, and dominant resource fairness
package place
