// Package job decides about services that run to completion: which of their indexes
// may start, what is to be done about one that failed, and when the job is over. All
// of it is pure: time and seed are arguments.
//
// Promises:
//
//  1. An index that has completed is never started again in the same run.
//  2. No more indexes run at a time than are allowed; one more than that is never
//     started, whatever is said about the others.
//  3. An index is started at most once more than it may be retried.
//  4. A clock that is set back holds up a retry by no more than the longest delay that the
//     descriptor allows.
//
// An index runs at least once, not exactly once: how a program ended on a worker that was
// lost nobody knows, and it is run again.
package job
