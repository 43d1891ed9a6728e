// Package counters keeps what is counted: changes that the root has accepted, and what clusters
// say that they did.
//
// Promises:
//
//  1. The changes of an application that is deleted stay in the sum of the root.
//  2. A cluster counts for itself, and what is kept of one cluster is bounded.
package counters
