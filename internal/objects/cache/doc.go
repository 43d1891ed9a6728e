// Package cache is the object store as a worker has it: what its instances and
// functions read of the cluster's is kept on the worker's disk.
//
// What it promises:
//
//  1. What is read has the digest that its cluster named. A file is checked when it
//     is opened first, when it has changed, and once an hour; a damaged one is fetched
//     again.
//  2. The cluster is asked whether an object is still so, unless that was a moment
//     ago (Fresh). If it cannot be asked, what is kept is as good as before.
//  3. Files take MaxBytes at most. What was not used for longest goes first; what is
//     open stays readable.
//  4. It costs nothing until somebody asks: nothing is read, made, or run by a clock.
package cache
