// Package lifecycle moves instances through their states by what workers report and by their
// silence.
//
// Promises:
//
//  1. Every step is one that policy/life allows, and is recorded with its reason.
//  2. An instance on a silent worker is replaced after the time that its service gives it, and at
//     most one of the two is kept when the worker comes back.
package lifecycle
