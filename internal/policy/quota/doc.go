// Package quota decides whether an application fits into what its namespace may
// ask for.
//
// Promises:
//
//  1. What counts is what is asked for, replicas times reservation, and not what
//     runs: the same descriptor is accepted or refused whatever the machines do.
//  2. An application that is being deleted counts until it is gone.
//  3. A change that asks for no more of something than before is never refused for
//     it, so that a namespace which is over its quota can be brought back.
//  4. A refusal names every bound that is passed, with its numbers.
package quota
