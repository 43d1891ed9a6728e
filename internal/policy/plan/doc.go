// Package plan describes what an apply would do. It does not decide that: the passes of
// each tier do, on a copy of its state.
//
// Promises:
//
//  1. A service counts as changed exactly if an apply counts it as changed. Each field that
//     differs is named, with its old and new value.
//  2. Values that may be secret are never shown: those of the environment, and the
//     contents of files.
//  3. A plan is of bounded size, whatever the descriptors are.
package plan
