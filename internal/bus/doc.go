// Package bus is what a tier has for messages and for its state: Conn, Store and Blobs, with
// the errors, limits and names that belong to them. It imports no NATS; packages below it
// implement it:
//
//	busserver    the server of a root or a cluster, embedded in its process
//	busconn      connections, of workers and of the server's process
//	logstore     Store: a log on JetStream, and memtable, its content in memory
//	blobstore    Blobs: pieces in a stream
//	credentials  keys and tokens; who may use which subjects
//	bustest      twins of all three in memory, and one suite that both pass
//	exchange     desired and observed state between two tiers, over a Conn
//	records      typed records in a Store
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
