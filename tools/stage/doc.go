// Package stage puts Verge on a stage: a root, clusters and workers as separate
// processes on this machine, on the loopback, below one folder. The demo and the
// measurement of the footprint play on it.
//
// Promises:
//
//  1. Whatever was started below the folder can be found again by the folder
//     alone, so that a stage is cleared by whoever knows it, also after a crash.
//  2. Clear leaves no process, no control group and no file.
//  3. Join tokens are in files with mode 0600, never in an argument.
package stage
