// Package state is what all parts of a cluster know: its workers, the instances and where they
// are, orders, routes, what the root wants and is told. What one part alone knows is with that
// part.
//
// Promises:
//
//  1. A Model is read by who has the lock of its owner; what is stored of it is changed by a Tx
//     alone, and counts once that is durable.
//  2. Records are values: who changes one puts another. A clone shares nothing else.
//  3. What follows from stored records, such as which instances leave, is kept in step with
//     them here.
package state
