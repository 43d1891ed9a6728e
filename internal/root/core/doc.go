// Package core is what all servers of a root share: the model behind its lock, the store, and
// how clusters are reached.
//
// Promises:
//
//  1. The model differs from what is stored only until the next reload; each write that failed
//     leads to one.
//  2. One goroutine at a time uses the model, and what packages remember beside it: in Do, View
//     and Update. What it reads there is stored.
package core
