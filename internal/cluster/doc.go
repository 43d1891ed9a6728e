// Package cluster is the middle tier: it owns its workers, the exact placement
// of what the root delegated to it, and the routes, and keeps all of that going
// without the root.
//
// Promises:
//
//  1. What should be is stored before anybody acts on it; one function (step)
//     derives the orders from it, from the workers' reports and from time, and
//     may run at any moment and as often as it likes.
//  2. A worker that is silent gets no new work at once; what it ran is replaced
//     only after replace_after, and if it returns exactly one of the two stays.
//  3. A cluster that has just started, or stalled, waits for its workers before
//     it believes that they are gone.
//  4. Nothing about a single worker leaves the cluster unless its operator lets
//     it, but one data address per instance that others may use, under an opaque
//     name.
package cluster
