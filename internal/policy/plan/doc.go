// Package plan words what an apply would do. What would be done it does not decide:
// that is what the passes of the tiers come to on a copy of what they know.
//
// Promises:
//
//  1. A service is changed exactly where an apply counts a change of it, and each
//     field that differs is named, with what it was and what it is to be.
//  2. Values that may be secret are never shown: those of the environment, and the
//     contents of files.
//  3. What is said is of bounded size, whatever the descriptors are.
package plan
