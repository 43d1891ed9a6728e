// Package rehearsal runs the passes of reconcile on a copy, for `verge plan`, and asks clusters
// what they would do.
//
// Promises:
//
//  1. Nothing of a rehearsal reaches the model.
//  2. What a cluster answers is bounded. Of a cluster that does not answer it is assumed that it
//     does what it is told, and the plan says so.
package rehearsal
