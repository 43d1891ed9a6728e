// Package logs reads what instances write, keeps it within its bounds, and retains the logs of
// instances that have left the worker for a day.
//
// Promises:
//
//  1. A reader that continues at LogChunk.Next misses nothing; what was dropped in between is
//     counted as lost.
//  2. What is retained takes a bounded number of bytes, and the oldest goes first.
package logs
