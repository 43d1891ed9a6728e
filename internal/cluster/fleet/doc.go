// Package fleet is the workers as placement sees them: what each has, what is reserved on it,
// which ports and devices are taken, and who would make room.
//
// Promises:
//
//  1. The index of a pass is made once, and kept in step with what the pass reserves and
//     releases.
//  2. A worker never has more reserved than it has.
package fleet
