// Package upgrades brings the workers of a cluster to another version of Verge, in waves, and
// stops where workers come back worse.
//
// Promises:
//
//  1. No wave begins before the one before has answered for as long as the rules say.
//  2. A worker that does not come back counts as failed; it is never left unwatched.
package upgrades
