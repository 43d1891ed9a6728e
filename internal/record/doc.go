// Package record holds what a root or cluster stores for itself: no other tier is sent it, and
// the HTTP interface shows a view of it (package apiv1). Messages that a tier stores as they
// came, such as a Share or an Instance, are in package wire; records of one capability alone are
// beside that capability.
//
// Promises:
//
//  1. A record carries its version, as messages do; this version reads what the one before
//     wrote.
//  2. A secret is stored sealed, and a token as a hash.
package record
