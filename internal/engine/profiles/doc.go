// Package profiles keeps a service of the worker busy, to see how fast it answers and where its time
// goes.
//
// Promises:
//
//  1. A request takes the way that all on the worker take, through the queues of the router.
//  2. A profile ends when nobody asks for it any more, and with the engine.
package profiles
