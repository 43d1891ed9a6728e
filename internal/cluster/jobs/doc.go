// Package jobs runs the jobs of the root: one run at a time, each index until it has completed
// or failed too often, at the times of its schedule.
//
// Promises:
//
//  1. An index that has completed is never run again in the same run, also after a restart or a
//     restored backup, as far as anybody knows of it.
//  2. At most as many instances run at once as the job allows.
package jobs
