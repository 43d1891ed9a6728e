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
// Measured beside the client of the standard library (BenchmarkClient, processor time of
// client and server together, two cores of an EPYC):
//
//	                   here                      net/http
//	100 bytes   54 µs,  60 allocations    78 µs,  85 allocations a request
//	4 MiB      8.2 ms, 2306 allocations   9.3 ms, 2637 allocations a request
//
// A small call costs 45 % more processor time there, which is why this package exists. With
// large bodies both ways it is 13 %, and there the standard library holds less memory.
//
//   - client.go: Client, which has connections and opens them
//   - conn.go: a connection, what is written to it, its end
//   - read.go: what a server sends
//   - stream.go: a request and its answer
//   - head.go: heads, to HPACK and from it
//
// What a server may send is bounded: a window for each answer, the size of heads, what
// it can have us write. Who breaks the rules loses the stream or the connection
// (RFC 9113, 5.4).
package h2client
