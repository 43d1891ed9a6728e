// Package routes is what a worker knows of services elsewhere: Uses says which endpoints it
// needs, Local completes the routes of a cluster that is away by what is ready here.
//
// Promises:
//
//  1. The first use of a service waits for its endpoints, for a bounded time.
//  2. A route of a cluster gets instances of this worker as endpoints only while it has none,
//     else as spares.
package routes
