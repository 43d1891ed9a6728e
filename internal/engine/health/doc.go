// Package health makes the startup, readiness and liveness checks of one instance: what they
// are, how a probe is made, and what a series of probes means.
//
// Promises:
//
//  1. Until the startup check has passed nothing else is probed.
//  2. A probe whose time ran out while this process did not run is no failure.
//  3. The reason of a failure shows no value of a secret.
package health
