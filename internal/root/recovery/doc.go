// Package recovery decides what a root does that was restored from a backup: it asks its clusters
// what they hold before it tells them anything.
//
// Promises:
//
//  1. A cluster that was not asked yet keeps what it has.
//  2. What a cluster holds and the root does not know is taken over before the cluster counts as
//     asked.
//  3. Nothing is decided while a cluster that may still answer has not.
package recovery
