// Package bus carries messages between tiers and keeps each tier's state. It is
// the only package that imports NATS; everyone else sees Store and Conn, which
// have an in-memory twin (Mem) that passes the same conformance suite
// (bustest).
//
// Promises:
//
//  1. When Commit returns nil, its operations are on disk (fsynced), all of
//     them; when it returns an error, none of them is visible, then or later,
//     except where the error is ErrUnknownOutcome.
//  2. Revisions of a store only grow. A store that was restored from a copy is
//     recognised (wire.Timeline).
//  3. A Conn can publish and subscribe only what its credentials allow; what is
//     refused is reported as an error to the caller or through the log, never
//     silently dropped.
//  4. Every port speaks TLS and asks for a certificate and for credentials.
package bus
