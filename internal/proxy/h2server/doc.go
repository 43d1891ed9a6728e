// Package h2server serves requests over HTTP/2, many over one connection: those of other routers,
// and of clients at entries. It is a server for a proxy, over the Framer and HPACK of
// golang.org/x/net, and the other end of package h2client.
//
// The server of the standard library hands each frame of an answer to another goroutine and starts
// one for each flush, so that head, message and trailers of a small answer are up to three writes to
// the socket. Here an answer belongs to the goroutine that makes it, and what is written in the same
// moment, by however many answers, goes out in one write.
//
//   - conn.go: a connection and its end
//   - read.go: what a client sends
//   - stream.go: a request and its body
//   - answer.go: its answer
//
// What a client may send is bounded: a window for each body and for the connection, the size of
// heads, the number of requests that are under way, what it can have us write. Who breaks the rules
// loses the stream or the connection (RFC 9113, 5.4). Floods of frames that carry nothing are for
// package h2guard.
package h2server
