// Package users gives each instance that runs as a process a user of the machine that no other
// instance has, and finds the users that descriptors name.
//
// Promises:
//
//  1. Engines of one machine never give the same user to two instances.
//  2. A directory belongs to a user only when all that is in it does.
package users
