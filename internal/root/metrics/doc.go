// Package metrics has the metrics of a root.
//
// Promises:
//
//  1. The number of series grows with the clusters, not with what they run.
//  2. A cluster that has not reported has no age, and no workers, instances or free capacity.
package metrics
