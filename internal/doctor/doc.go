// Package doctor looks at a machine before, and while, Verge works on it: what
// will not work, why, and what to do about it.
//
// Promises:
//
//  1. Looking changes nothing, but for a file in the data directory that is
//     written and removed again to see whether that is possible.
//  2. Each finding that is not well says what to do next and names a page of the
//     documentation.
//  3. No finding shows a secret.
package doctor
