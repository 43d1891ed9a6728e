// Package hollow is the engine of a worker that runs nothing: what it is told to
// run, runs at once, as far as it says. With it one process is thousands of workers,
// each with an identity, a connection, heartbeats and orders of its own, so that a
// cluster can be tried at a size of which nobody has the machines.
//
// Promises:
//
//  1. It takes what its orders say, and nothing else, and says of each what an engine
//     would say of a program that starts at once, is ready and never ends.
//  2. It refuses what goes beyond its capacity, as an engine does: a cluster that
//     gives it too much is found out.
//  3. It keeps nothing: after a restart of its process the cluster learns that what it
//     ran is gone.
package hollow
