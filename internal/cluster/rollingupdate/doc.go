// Package rollingupdate brings instances to the revision of their service, as many at a time
// as the rollout of the service allows.
//
// Promises:
//
//  1. No more instances are stopped than the promised number allows.
//  2. An instance that is restarted keeps its volumes, and its worker where that still fits.
package rollingupdate
