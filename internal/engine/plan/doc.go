// Package plan decides what becomes of instances: Goals gives every instance, ordered or
// present, its goal within the capacity of the worker; Next is the next step of a supervisor
// towards it.
//
// Promises:
//
//  1. It is pure: the same input has the same outcome, and nothing is read or kept.
//  2. What holds its place keeps it; nothing new is admitted beyond the capacity.
package plan
