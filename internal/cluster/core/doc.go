// Package core is what all servers of a cluster share: the model behind its lock, the store,
// and the connections to the workers and to the root.
//
// Promises:
//
//  1. The model differs from what is stored only until the next reload; each write that failed
//     leads to one.
//  2. The model, and what packages remember beside it, is used by one goroutine at a time: in Do,
//     View and Update, which nobody calls within another. A commit is part of them.
package core
