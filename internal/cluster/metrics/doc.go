// Package metrics has the metrics of a cluster.
//
// Promises:
//
//  1. The number of series does not grow with workers and instances. Of services that scale, those
//     with the most requests have series, and a bounded number of them.
//  2. Capacity and reservations count the workers that are ready, on which something can run.
//  3. The metrics of a worker are those of this moment: they are asked for and not kept.
package metrics
