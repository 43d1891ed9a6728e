// Package sla decides when an instance moves because its agreement is violated where it
// runs. It is a decider: functions of state and time.
//
// The agreement is measured repeatedly; the last Size samples are a Window. A share of
// 1 - rigidness of them may violate it: with a rigidness of 1 the first violation moves
// the instance, with 0 none does.
//
// Promises:
//
//  1. Only the last Size samples influence a decision.
//
//  2. On the same samples, a more rigid service moves no later than a less rigid one.
//
//  3. A service is moved at most once in Rest, unless the agreement is hard-violated:
//     all samples of a whole window violate it.
package sla
