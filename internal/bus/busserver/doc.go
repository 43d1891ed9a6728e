// Package busserver runs the NATS server of a root or a cluster inside the process, with the
// store and the blobs of the tier (packages logstore and blobstore) and the connections of
// the process. Stores of servers that do not run are read and written here too (ReadStore,
// Edit, WriteSnapshot).
//
// Promises:
//
//  1. Every port speaks TLS 1.3 before the first byte of the protocol, and demands a
//     certificate and a token that name the same node (admission.go).
//  2. Clusters and workers cannot reach each other's subjects; nobody but the process reaches
//     the store.
//  3. One process has a directory; a second one is refused.
//
// The design page is that of internal/bus.
package busserver
