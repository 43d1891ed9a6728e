// Package upgrader runs an upgrade of the workers: it asks those of the present wave, and notes
// how far they are.
//
// Promises:
//
//  1. A step of a worker is stored before the worker is asked for it. To ask again for the same
//     step changes nothing, so that an upgrade goes on after a restart of the cluster.
//  2. At most 32 workers are asked at a time.
package upgrader
