// Package overlay is the service network of a worker: addresses, namespaces,
// names, service addresses, isolation and the paths to other workers. The engine
// owns it; nobody else does. DESIGN.md says how the pieces meet.
//
// Promises:
//
//  1. What is established goes on: no change of routes, of peers or of the ruleset
//     breaks a connection to a healthy instance.
//  2. A change of the ruleset is one transaction: no packet meets half of it.
//  3. What is not allowed is dropped and counted. Nothing is allowed by default.
//  4. Nothing here needs an orchestrator once the orders are known.
//  5. All that is made in the kernel carries the worker's mark, and is gone after
//     Close, or after the next start that follows a kill.
package overlay
