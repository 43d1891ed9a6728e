// Package uplink is the cluster's side of the exchange with its root: what it takes from there,
// what it reports, and since when it has not been reached.
//
// Promises:
//
//  1. What the root sent counts once it is stored; the root is told its revision after that.
//  2. A sum over all workers that takes more than 5 ms is followed by a pause of ten times as
//     long, at most 500 ms; while nothing is stored and no pass decides, by one of 30 s.
package uplink
