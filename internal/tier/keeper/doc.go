// Package keeper makes the changes of a tier durable, in one place.
//
// Promises:
//
//  1. What Whole stores is stored as a whole or not at all; what Parts stores keeps the groups
//     of a transaction whole, in their order.
//  2. A transaction is part of the state in memory once it is durable, and not before.
//  3. After a write that failed, of which nobody knows how much is stored, what is in memory
//     is not believed: Stale says so until it was loaded again.
//  4. One goroutine at a time uses the state.
package keeper
