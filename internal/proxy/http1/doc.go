// Package http1 relays HTTP/1.1 between two connections at the cost of the system
// calls. It knows nothing of services: who is asked is decided by its Backend.
//
// Promises:
//
//  1. It never guesses. A request that is not plain HTTP/1.1 with a known length is
//     handed over, at a request boundary and with its unread bytes, to whoever
//     understands all of HTTP (net/http). What can only be an attack on the framing
//     is refused, and its connection closed.
//  2. What its parser accepts, net/http reads alike: method, target, host, length.
//     A fuzz target holds it to that.
//  3. Heads are written anew, field by field, each line ended by CRLF: nobody behind
//     it sees a framing that is open to interpretation.
//  4. Memory: a connection that rests holds no buffer; one that is busy at most two
//     of bufferSize, unless the head of a response needs more (at most maxResponse),
//     or a body of at most 64 KiB that may have to be sent again (Exchange.Gather).
//  5. Nothing is allocated for a request in the common case.
//
// It has 3,700 lines and is one thing: the parser, the relay of bodies and the limits work on the
// same two buffers of a connection, which is what promises 4 and 5 hang on.
package http1
