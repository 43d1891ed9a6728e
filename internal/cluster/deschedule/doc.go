// Package deschedule finds the instances that should be elsewhere: their latency limit is broken,
// their device is gone, their requests enter far away, or their worker is drained.
//
// Promises:
//
//  1. An instance moves only to a worker that placement chooses for it; without one it stays,
//     and the reason is noted.
//  2. One instance of a service moves at a time, and none while the cluster may be cut off.
//  3. Each move has a reason that people can read.
package deschedule
