// Package proxy is the router of a worker: it turns a service into one instance
// that answers, for connections (loopback entries), for requests (gateway), and
// between workers (data port, mutual TLS).
//
// The parts are packages of their own, from counters and netconn up to gateway; DESIGN.md has
// their order. This package composes them and is what the engine sees.
//
// Promises:
//
//  1. A service has the same loopback address on a worker for as long as the
//     worker's data directory lives.
//  2. An endpoint that refuses or resets is out of the rotation at once and back
//     after a successful probe; a connection attempt moves on to the next
//     endpoint, as long as no byte of it was sent.
//  3. Routes are replaced atomically; established connections to healthy
//     instances are never touched by that.
//  4. Nothing hangs: no endpoint means an immediate refusal with its reason.
package proxy
