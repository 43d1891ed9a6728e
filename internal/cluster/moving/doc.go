// Package moving starts the move of an instance to another worker, and says where it goes.
//
// Promises:
//
//  1. The successor runs beside the instance, which goes on until the successor is ready.
//  2. An instance that is pinned by a named volume, or belongs to a job, stays where it is.
//  3. A move that fails leaves the instance as it is.
package moving
