// Package requests sends requests to instances of the worker because somebody asks: one
// (Invoke), or as many as it takes to see what a service does (Profile).
//
// Promises:
//
//  1. A request takes the way that all on the worker take, through the queues of the router.
//  2. A profile ends when nobody asks for it any more, and with the engine.
package requests
