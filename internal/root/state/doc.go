// Package state is what all parts of a root know: applications, the instances and where they
// are, shares, routes, and each cluster as it reports itself. What one part alone knows is with
// that part.
//
// Promises:
//
//  1. A Model is read by who has the lock of its owner; what is stored of it is changed by a Tx
//     alone, and counts once that is durable.
//  2. Records are values: who changes one puts another. A clone shares nothing else.
//  3. A share is stored after the instances that it is derived from.
package state
