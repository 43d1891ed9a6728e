// Package overflow lets other clusters run what a cluster has demand for and no room.
//
// Promises:
//
//  1. The number of instances of a service stays within its descriptor.
//  2. What a cluster lacks counts as long as it says so, and for a while after.
package overflow
