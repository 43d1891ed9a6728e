// Package root is the top tier: it owns the applications and which cluster runs
// what, and sees a cluster only as an aggregate.
//
// Promises:
//
//  1. What an operation acknowledged is on disk; everything else is derived from it, from the
//     clusters' reports and from time, by one function (reconcile.Step) that may run at any
//     moment and as often as it likes.
//  2. The root delegates shares; it never orders a worker.
//  3. A restart of the root stops nothing and empties no route: what it has not
//     heard again yet it leaves as it was.
//  4. Nobody else is given an instance before the cluster that had it has
//     nothing of it any more, or is dead.
package root
