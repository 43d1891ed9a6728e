// Package cron decides when a scheduled job runs. It is a decider: time and state are
// arguments.
//
// Promises, whatever the clock does between two decisions:
//
//  1. No time of a schedule has two runs.
//  2. No run begins before its time.
//  3. A time that has passed had a run, is skipped because another run is in progress, or
//     counts as missed; each is reported.
//  4. The state is bounded.
//
// They hold for one state. A cluster that takes a schedule over begins with the runs that its
// predecessor has reported; runs that were not reported, or that began early because its clock
// was ahead, may be repeated. The same applies to a cluster restored from a backup.
package cron
