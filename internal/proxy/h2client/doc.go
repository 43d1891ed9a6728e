// Package h2client asks servers over HTTP/2, many requests over one connection: instances
// that speak gRPC, and other routers. It is a client for a proxy, over the Framer and HPACK
// of golang.org/x/net.
//
// The client of the standard library spends a goroutine on each request and up to three
// writes to the socket. Here a request belongs to the goroutine that asks; only a body has
// one of its own. What is written in the same moment, by however many requests, goes out
// in one write, and whoever waits is woken when all that has arrived was looked at, so
// that the answer to a small call is there at once: head, message and trailers.
//
//   - client.go: Client, which has connections and opens them
//   - conn.go: a connection, what is written to it, its end
//   - read.go: what a server sends
//   - stream.go: a request and its answer
//   - head.go: heads, to HPACK and from it
//   - pieces.go: what of an answer waits for its reader
//
// What a server may send is bounded: a window for each answer, the size of heads, what
// it can have us write. Who breaks the rules loses the stream or the connection
// (RFC 9113, 5.4).
package h2client
