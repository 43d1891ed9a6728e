// Package rival has replica selection algorithms of the literature as senders of the simulation, for
// comparison with the policies of this project:
//
//   - [C3], from "C3: Cutting Tail Latency in Cloud Data Stores via Adaptive Replica Selection", NSDI 2015.
//   - [Prequal], from "Load is not what you should balance: Introducing Prequal", NSDI 2024.
//
// Neither fits route.Policy: C3 holds requests back and Prequal sends probes.
//
// Promises:
//
//  1. They send as [sim.Router] does: over the same links, and a refused request once more, to another pod.
//  2. Parameters are those of the paper or its authors' code. Where they leave a choice, it is the one with
//     which the algorithm does best here, and a comment says so.
//  3. The same seed of the world gives the same run.
package rival
