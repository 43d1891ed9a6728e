// Package jobs decides about services that end: which index is where, which have completed, and
// which cluster has the schedule of a job.
//
// Promises:
//
//  1. Of a job without a schedule, an index that is known to have completed is not run again for
//     the same program and restart.
//  2. A schedule is recorded for one cluster at a time. Who takes it over goes on where the one
//     before was heard last.
package jobs
