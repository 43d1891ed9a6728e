// Package scale decides how many replicas a service should have, and which requests
// it must turn away. What it decides from is measured at the queue in front of each
// instance.
//
//   - [Meter] belongs to one queue: how fast requests leave it, and how sure it is
//     that the instance could not go faster. Its [Report] travels with each response.
//   - [Capacity] belongs to a router, one per replica: what the replica could do, from
//     the reports.
//   - [Admit] says whether a request can still be answered within its objective.
//   - [Predictor] predicts the rate of a service, [StartUp] learns how long its
//     replicas take to start.
//   - [Spill] decides in which other clusters instances run for which a cluster has
//     demand and no room; [Hold] keeps it from moving with every lull.
//   - [Scaler] joins these: once per epoch and service, [Scaler.Decide] takes the
//     [Rules] of the service and the [Demand] for it and says how many replicas there
//     should be, with all it was decided from, and which of them are worth least.
//
// Promises:
//
//  1. Everything is a function of its state, its arguments and now: no clock, no
//     lock, no goroutine. Who shares a value between goroutines guards it.
//  2. Meter and Capacity are of fixed size and allocate nothing.
//  3. Times that run backwards and numbers that are not finite change nothing.
//
// DESIGN.md says where the rules come from, where they differ from that, and why.
package scale
