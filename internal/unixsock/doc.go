// Package unixsock opens unix sockets that only their own user may talk to, at
// paths of any length.
//
// Promises:
//
//  1. A connection that Listen's listener accepts comes from a process of the
//     same user or of root; every other one is closed before a byte is read.
//  2. A socket at path is replaced as one step: a client finds the old one or
//     the new one, and never one that is open to others for a moment.
//  3. The limit of 107 bytes that the kernel puts on a socket's path does not
//     apply: a longer one goes by way of its folder's descriptor.
//
// Whoever calls Listen makes sure that no living process serves the same path
// (a lock in the same folder); Listen takes it over without asking.
package unixsock
