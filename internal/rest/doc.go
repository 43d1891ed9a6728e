// Package rest is the HTTP interface of a root and of a cluster: one set of
// operations over one Backend, described by OpenAPI 3.1 from its types, and the
// client that the command line uses.
//
// Promises:
//
//  1. TLS 1.3 always; every operation but liveness and join needs a client
//     certificate of this root's authority or a bearer token.
//  2. Bodies, headers and waiting times are bounded; a slow client is cut off.
//  3. Every error is a problem document (RFC 9457) that says what, why and what
//     to do next; no panic reaches a client.
//  4. What a role does not offer is answered with who does.
package rest
