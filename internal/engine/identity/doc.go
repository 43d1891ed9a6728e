// Package identity is the certificate of a worker as its agent keeps it: the TLS
// configurations of its router, relay and network, and the check of a peer's lease.
//
// Promises:
//
//  1. A renewed certificate is used by the next handshake, without a restart.
//  2. A renewed certificate that cannot be read leaves the one before in use.
package identity
