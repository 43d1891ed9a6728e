// Package invoke sends one request to an instance of the worker because somebody asks.
//
// Promises:
//
//  1. The request takes the way that all on the worker take, through the queues of the router.
//  2. The answer is bounded; what is cut off is said.
package invoke
