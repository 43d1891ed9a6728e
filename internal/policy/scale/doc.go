// Package scale decides how many replicas a service should have, and which requests
// it must reject. Its input is measured at the queue in front of each instance.
//
//   - [Meter], one per queue, measures how fast requests leave it, and how certain it is
//     that the instance could not go faster. Its [Report] travels with each response.
//   - [Capacity], one per replica in a router, estimates the capacity of the replica from
//     the reports.
//   - [Admit] says whether a request can still be answered within its objective.
//   - [Predictor] predicts the rate of a service, [StartUp] learns how long its
//     replicas take to start.
//   - [Spill] decides which other clusters run instances if a cluster has demand and no
//     room; [Hold] keeps it from following every lull.
//   - [Scaler] combines these: once per epoch and service, [Scaler.Decide] takes the
//     [Rules] of the service and the [Demand] for it, and returns the number of replicas
//     with the inputs of the decision, and a ranking of the replicas.
//
// Promises:
//
//  1. Everything is a function of its state, its arguments and now: no clock, no
//     lock, no goroutine. The caller guards values that goroutines share.
//  2. Meter and Capacity are of fixed size and allocate nothing.
//  3. Times that run backwards and numbers that are not finite change nothing.
//
// DESIGN.md says where the rules come from, and where and why they differ.
package scale
