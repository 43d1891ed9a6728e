// Package http1 relays HTTP/1.1 between two connections at the cost of the system
// calls. It knows nothing of services: who is asked is decided by its Backend.
//
// Promises:
//
//  1. It never guesses. A request that is not plain HTTP/1.1 with a known length is
//     handed over, at a request boundary and with its unread bytes, to whoever
//     understands all of HTTP (net/http). What can only be an attack on the framing
//     is refused, and its connection closed.
//  2. Memory: a connection that rests holds no buffer; one that is busy at most two
//     of bufferSize, unless the head of a response needs more (at most maxResponse),
//     or a body of at most 64 KiB that may have to be sent again (Exchange.Gather).
//  3. Nothing is allocated for a request in the common case.
//
// Package message, within it, reads and writes heads and chunks.
package http1
