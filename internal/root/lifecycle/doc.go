// Package lifecycle moves instances through the part of their life that the root decides: lost
// with their cluster, found again, given back, ended, forgotten.
//
// Promises:
//
//  1. An instance that ends is forgotten when its cluster has nothing of it, or is dead.
//  2. Of an original and its replacement one stays: what has completed, else what the service says.
//  3. An application is deleted when none of its instances is stored.
package lifecycle
