// Package grant decides which blocks of worker numbers and /24s a root leases to its clusters. What
// a cluster does with them is decided in package lease.
//
// Promises:
//
//  1. A block has one cluster: a new lease overlaps neither one that exists nor one that rests.
//  2. A lease only grows. A cluster that has forgotten it, or a root that has, adopts it.
//  3. A root that was restored from a backup leases nothing that it may have leased after the
//     backup.
//  4. One cluster gets half of the pool at most.
package grant
