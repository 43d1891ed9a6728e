// Package routes completes the routes of a cluster that is away by what is ready on this worker.
//
// Promise: a route gets instances of this worker as endpoints only while it has none, else as
// spares.
package routes
