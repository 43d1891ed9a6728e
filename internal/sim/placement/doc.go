// Package placement asks the deciders of policy/place where instances go, on real or generated
// infrastructures, and measures the result. Workers, clusters and services are simulated; the
// deciders are those of clusters and the root.
//
//   - [Scenario] is workers, the round trips between them, and services to place; [Continuum],
//     [OpenB] and [PlanetLab] are of real data, [Random] generates one.
//   - [Scheduler] is a way to place them: [Run] on one cluster of all workers, [RunTiered] on the
//     clusters of the scenario, below a root that knows only their aggregates.
//   - [Measure] rates the result: what was placed, violated agreements on distance, request times,
//     fairness, fragments.
//
// Promises:
//
//  1. The same seed gives the same placement on every machine; only decision times differ.
//  2. Schedulers are compared on the same workers with the same services in the same
//     order.
//  3. Nothing is placed where it does not fit: each binding checks that again, as a worker does,
//     and a misfit is an error of the run.
//
// Decision times are processor times, so that other programs on the machine disturb them little (if
// the system tells them; else by the clock).
package placement
