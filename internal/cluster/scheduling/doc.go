// Package scheduling decides in which order instances get a worker, and who makes room for
// whom: by priority, then by the fair shares of namespaces.
//
// Promises:
//
//  1. An instance is displaced only by one of higher priority, and only if that then fits.
//  2. What was displaced waits in the same order as all others.
package scheduling
