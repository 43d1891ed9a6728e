// Package netconn has what every part of a router does with connections, whatever is spoken
// on them: accept and count them, relay bytes or datagrams between two of them, and end one
// so that its peer can tell an abort from a regular end.
//
// Promises:
//
//  1. Cut never looks like an end: a TCP connection is reset, a TLS connection ends without
//     its closing alert.
//  2. A relay that rests holds one small buffer per direction. An end in one direction is
//     passed on as a half-close.
//  3. What is silent for HalfClosedIdle after a half-close is cut.
package netconn
