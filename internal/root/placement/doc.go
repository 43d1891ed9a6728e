// Package placement chooses the cluster of each instance, from the aggregates of clusters less
// what they were given since.
//
// Promises:
//
//  1. Services get their place by priority, then by the fair shares of namespaces.
//  2. An instance that a cluster returned goes to another one when the first reports nothing of
//     it any more, or is dead.
//  3. A cluster that returned an instance is asked again after a wait, which grows up to a bound
//     and is shorter if its aggregate shows a gain.
//  4. Of a service that moves, one instance goes at a time, and its successor is made first. An
//     index of a job ends first.
//  5. Each decision is recorded with its candidates.
package placement
