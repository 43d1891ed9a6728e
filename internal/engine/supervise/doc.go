// Package supervise runs one instance: a goroutine that starts, watches and stops its task,
// step by step as plan.Next says, towards the goal that it was given last.
//
// Promises:
//
//  1. An instance is started at most once at a time: what an earlier engine may have started
//     unnoted is ended first.
//  2. An exit is on disk before anything is done about it.
//  3. A goal that changes while a step is under way waits for its end and nothing else.
//
// It is larger than most packages: a supervisor is one decider with one record, whose steps
// share its state. What a step needs of others it has by the small interfaces of Deps.
package supervise
