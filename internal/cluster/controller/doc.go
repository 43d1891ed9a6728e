// Package controller is the control loop of a cluster: when it looks, and what it does with what a
// pass decided.
//
// Promises:
//
//  1. Nothing that was decided is told before it is stored.
//  2. Passes take at most a quarter of the time; the fast path applies single reports between
//     them.
package controller
