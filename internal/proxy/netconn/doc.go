// Package netconn has what every part of a router does with a connection, whatever is spoken on it:
// count its bytes, notice a peer that is gone, and end it so that its peer can tell an abort from a
// regular end.
//
// Promise: Cut never looks like an end: a TCP connection is reset, a TLS connection ends without its
// closing alert.
package netconn
