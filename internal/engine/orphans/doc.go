// Package orphans finds and ends processes of instances that no record names, by what was put
// into their environment.
//
// Promises:
//
//  1. Processes of other engines are left alone.
//  2. A signal reaches the process that was looked at, never another that got its number.
package orphans
