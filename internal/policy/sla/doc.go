// Package sla decides when an instance is to be moved since its agreement is violated
// where it is. It is a decider: functions of state and time.
//
// The agreement is measured again and again; the last Size samples are a Window. The
// rigidness of a service says which share of them may violate it: 1 - rigidness. With 1
// the first violation moves the instance, with 0 none does.
//
// Promises:
//
//  1. A window says the same whatever its samples before the last Size were.
//
//  2. What is more rigid moves no later than what is less, on the same samples.
//
//  3. A service is moved at most once in Rest, unless the agreement is hard-violated:
//     all samples of a whole window violate it.
package sla
