// Package job decides about services that run to completion: which of their indexes
// may start, whether a failed one is retried, and when the job is over. It is a decider:
// time and seed are arguments.
//
// Promises:
//
//  1. An index that has completed is never started again in the same run.
//  2. At most as many indexes run at a time as the job allows.
//  3. An index is started at most once more than it may be retried.
//  4. A clock that is set back delays a retry by at most the longest delay of the
//     descriptor.
//
// An index runs at least once, not exactly once: it runs again if its worker is lost, since
// nobody knows how it ended there.
package job
