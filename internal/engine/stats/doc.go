// Package stats measures what the instances of a worker use and what its clients ask for.
//
// Promise: nothing is measured while nobody asks.
package stats
