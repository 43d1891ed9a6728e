// Package route decides which endpoint of a service takes a connection or a
// request, and when an endpoint that failed is looked at again. It is a decider:
// functions of state, time and seed, without clock, I/O or goroutine.
//
// Promises:
//
//  1. An endpoint that is not ready is never chosen. Among the others the best
//     class is used: healthy, then suspect, then ejected; a try that may fail is
//     better than a refusal that is certain. Only then does a policy choose.
//  2. Round robin is exact: as long as two endpoints stay usable, they are chosen
//     equally often but for one, whatever happens to the other endpoints.
//  3. The order in which endpoints are listed has no influence.
//  4. Weights are finite, not negative, and add up to 1, whatever was measured.
//     Pick gives requests in these shares, where a policy does not go by load.
//  5. A distance that is not known is never taken for a short one: it counts as the
//     median of those that are known, by fastest as their mean.
//  6. A choice by load looks at a bounded number of endpoints and allocates nothing,
//     however many there are. What was never measured, is stale or is no number at all
//     changes which endpoint is chosen, never whether one is.
//
// DESIGN.md says why fastest is the sum that it is, and how it does.
package route
