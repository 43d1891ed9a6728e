// Package distance keeps what a worker knows of its distances to others: it
// measures whom package coord says, over whatever path the engine gives it,
// answers those that measure it, and keeps its place over restarts.
//
// Promises:
//
//  1. Nobody is measured unless a service that needs distances was used within the
//     last minute, or somebody asks. A worker at rest has no timer here, sends
//     nothing and writes nothing.
//  2. Of each service that is used, at most coord.PerService workers are measured, and
//     once coord.AtOnce by a worker that knows no distances: at once where nothing is
//     known, and once more a second later, then one a second while the own place moves,
//     and later as seldom as keeps them fresh.
//  3. A peer that does not answer holds up nobody, and is asked less and less often.
//  4. Its file is written at the end, and otherwise at most every ten minutes while
//     it measures; without it the worker begins anew.
package distance
