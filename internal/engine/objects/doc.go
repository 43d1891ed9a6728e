// Package objects is the worker's part of the object store: a cache, and the address at which
// instances reach it.
//
// Promises:
//
//  1. It listens from the first start of an instance on, and at the same address with the same
//     keys after a restart of the engine: running instances were told of it.
//  2. A damaged file makes new keys; one of a newer version is an error.
package objects
