// Package rest is the HTTP interface of a root and of a cluster: one set of
// operations over one Backend, described by OpenAPI 3.1 from its types, and the
// client that the command line uses.
//
// Promises:
//
//  1. TLS 1.3 always; every operation needs a client certificate of this root's
//     authority or a bearer token. Open are only join (which checks its own
//     token), liveness, readiness and the OpenAPI description.
//  2. Bodies, headers, connections and waiting times are bounded; a slow client
//     is cut off.
//  3. Every error is a problem document (RFC 9457) that says what, why and what
//     to do next; no panic reaches a client.
//  4. Every operation says what it needs of who asks (permission.go), and is held
//     to it before it is run; one that does not is refused to everybody. What
//     somebody may not see is answered as if it did not exist.
//  5. What a role does not offer is answered with who does.
package rest
