// Package proximity is how far other workers are: Distances connects the meter with the
// router, which routes by what is measured; a Reporter tells it to who asks.
//
// Promises:
//
//  1. Only workers that are used are measured, or those that somebody asks for.
//  2. An answer takes a bounded time, however many others do not answer.
package proximity
