// Package routes derives what all clusters are told: where services are, and which keys do not
// count any more.
//
// Promises:
//
//  1. A restart of the root empties no route: what a cluster said before stays until it is heard
//     again, or is dead and what it ran is replaced.
//  2. Of what a cluster reports, those instances have endpoints that it was given, and those that
//     stand in for them in a rollout.
//  3. A cluster revokes keys of its own workers alone. Of more than maxFar revocations those are
//     left out that end soonest.
package routes
