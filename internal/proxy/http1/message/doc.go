// Package message reads and writes the messages of HTTP/1.1 (RFC 9112): heads of requests and
// responses, and chunked bodies. It works on buffers and does no I/O.
//
// Promises:
//
//  1. What a request's parser understands, net/http reads alike: method, target, host, length.
//     A fuzz target holds it to that. Anything else is Unusual, for net/http to judge; what can
//     only be an attack on the framing is Forbidden.
//  2. Heads are written anew, field by field, each line ended by CRLF and with one framing, so
//     that no server behind the relay can read them otherwise.
//  3. Nothing is allocated for the heads of a common request.
package message
