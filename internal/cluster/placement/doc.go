// Package placement chooses the worker of an instance, by the scheduler of its service, and
// reserves what it takes.
//
// Promises:
//
//  1. A worker is chosen only if it has what the instance asks for.
//  2. Each decision is recorded with its candidates and the reason why others were not taken.
package placement
