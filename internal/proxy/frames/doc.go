// Package frames is what both ends of a connection over HTTP/2 have in common: what is to be written
// waits in memory until the goroutine that writes takes all of it at once, the peer's settings of
// that, and the names of headers.
//
// A Writer is not safe for concurrent use, but for Flush and Pending: its connection has the lock.
package frames
