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
//  3. A cluster is passed over for lack of room only if it is proven that not even
//     one replica fits, or if the replicas just delegated to it are expected to
//     fill it. So no capacity is overlooked for ever: at worst the cluster is
//     offered one replica and refuses it.
//
//  4. If something could not be placed, Reason says why, in words and with units.
//
//  5. Impossible inputs (negative, NaN, infinite) count as nothing free and
//     nothing demanded. The caller ensures that ids are distinct.
//
//  6. A cluster is passed over for a constraint (architecture, labels, location,
//     polygon, anti-affinity) only where its aggregate proves that none of its
//     ready workers satisfies it. A cluster describes them by counts, a disc and a
//     ball, in a size that does not depend on their number (Describe). The same holds
//     for what must be near; coordinates prove nothing and only order clusters.
//
//  7. A Fleet, which indexes the workers, decides as Schedule does over the same
//     workers and leaves the same record.
//
// # Many workers
//
// With 10,000 workers each decision would scan all of them, a hundred times in a busy
// second. A Fleet evaluates the constraints of a request once for all workers and groups
// them by the first filter that removes them. Those that pass are in a B+ tree, sorted by
// the largest free share of any of their resources, which is what rom scores by. Each
// node has the bounds of its subtree (the least and the most that is free of each
// resource, and the capacities), so that a full subtree is counted at once and a subtree
// that cannot contain the best is skipped. Identical workers are adjacent, in the order
// of the ring that breaks ties: the one to choose among thousands is found by a key
// lookup. The numbers of the record stay exact. If all workers differ, counting those
// short of a resource other than the sort key visits many of them; only the cost of that
// part grows with their number.
//
// Constraints, including locations and areas, are evaluated again only for a worker that
// changes. Rejected: classes of workers that are alike in what requests ask for. Each
// constraint would need a rule, and a label whose value is unique to each worker makes as
// many classes as workers.
//
// # Schedulers
//
// To add one: an entry in scorers, its name in api/schema (services.*.scheduler), and a row in
// docs/concepts.md. TestDescriptorsNameAllSchedulers compares the first two.
//
// A scheduler scores one worker (scorer); everything else is common to all, so each keeps
// the promises above. Services that contend by drf are ordered by a Round, which a cluster
// asks for each instance; Contend decides a whole round without records. Only rom searches
// with bounds; the others visit all workers of the index that fit. nearest-demand treats
// the traffic of a service as a market: each request goes to the replica that answers it
// soonest, and a new replica to where it shortens the mean response time most.
//
// # Making room
//
// Whether instances of a lower priority could make room follows from sums, and from the
// most that any one worker would have free of each resource (wire.PriorityUse.Room). Of the
// fleets of TestRoomThatCanBeMadeQuality in which no room can be made, 93 % are asked in
// vain by the sums alone, none with Room.
//
// # Packages
//
// Its 4,600 lines belong together: the root, a cluster, its index and the words of a record must
// agree on each filter, score and target. The independent parts are sub-packages:
//
//	place/amount     amounts of resources: arithmetic, shares, words
//	place/device     which devices of a worker an instance gets
//	place/estimate   how many replicas fit into a cluster, from its aggregate
//	place/geo        distances and areas on the Earth, balls of coordinates
//	place/index      the B+ tree of workers
//	place/phrase     phrases of explanations
//	place/turn       who is placed next: priorities, and dominant resource fairness
package place
