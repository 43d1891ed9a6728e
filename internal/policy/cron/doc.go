// Package cron decides when a job that has a schedule is to run. All of it is pure: the
// time and what is known are arguments.
//
// Promises, whatever the clock does between two decisions:
//
//  1. No time of a schedule has two runs.
//  2. No run begins before its time.
//  3. A time that has passed has a run, is skipped since another one goes on, or is counted
//     as missed; nothing is dropped without a word.
//  4. What it has to remember is bounded.
//
// They hold for one state. A cluster that takes a schedule over begins with what its
// predecessor was heard to have begun; what that one did unheard, or for times to come since
// its clock was ahead, may be done again. So it is with one that was restored from a backup,
// and was told what it had begun since.
package cron
