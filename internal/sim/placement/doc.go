// Package placement asks the deciders of policy/place where instances go, on
// infrastructures that are given or drawn, and measures what came of it. Workers,
// clusters and services are imagined; what decides is what decides in a cluster and
// in the root.
//
//   - [Scenario] is workers, the round trips between them, and services to be placed;
//     [Continuum], [OpenB] and [PlanetLab] are three of real data, [Random] draws one.
//   - [Scheduler] is a way to place all of it; [Run] does so, on one cluster of all
//     workers, and [RunTiered] on the clusters of the scenario, below a root that
//     knows their aggregates only.
//   - [Measure] says how good it is: what was placed, agreements on distance that do
//     not hold, how long requests would take, fairness, fragments.
//
// Promises:
//
//  1. With the same seed the same is placed, on every machine; only the time that
//     decisions take differs.
//  2. Schedulers are compared on the same workers with the same services in the same
//     order.
//  3. Nothing is ever placed where it does not fit: that is checked at each binding
//     again, as a worker does, and is an error of the run.
//
// Times of decisions are those of the processor, so that other programs on the
// machine disturb them little (where the system tells; else by the clock).
package placement
