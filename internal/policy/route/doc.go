// Package route decides which endpoint of a service takes a connection or a request, and when an
// endpoint that failed is tried again. It is a decider: functions of state, time and seed, without
// clock, I/O or goroutine.
//
// Promises:
//
//  1. An endpoint that is not ready is never chosen. Among the others the best class is used:
//     healthy, then suspect, spare, ejected; an attempt that may fail is better than a certain
//     refusal. The policy chooses within that class.
//  2. Round robin is exact: two endpoints that stay usable are chosen equally often to within one,
//     whatever happens to the others.
//  3. The order in which endpoints are listed has no influence.
//  4. Weights are finite, not negative, and add up to 1, whatever was measured. Pick follows these
//     shares unless the policy goes by load.
//  5. An unknown distance never counts as short: it counts as the median of the known ones, for
//     fastest as their mean.
//  6. A choice by load looks at a bounded number of endpoints and allocates nothing, however many
//     there are. Values that are unknown, stale or not numbers affect which endpoint is chosen,
//     never whether one is.
//
// To add a policy: its name in api.PolicyNames, its rule in namedRule or New (policies.go), its
// words in internal/cli/routeplan.go and api/schema, and a row in docs/concepts.md.
//
// DESIGN.md gives the reasons for the cost that fastest uses, and its results.
package route
