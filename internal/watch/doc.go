// Package watch keeps a log of what changes in some lists, for those who want to
// hear of it as it happens.
//
// Promises:
//
//  1. While nobody watches nothing is done and nothing is kept; soon after the
//     last has left it is so again.
//  2. Lists are made when there was a sign of a change, once for all who watch,
//     and the less often the longer they take.
//  3. Whoever reads slowly holds up nobody: there is one log for all, of bounded
//     length, and whoever falls behind its beginning starts again with everything.
//  4. A place in the log can be gone on from later, as long as the log reaches
//     back to it.
package watch
