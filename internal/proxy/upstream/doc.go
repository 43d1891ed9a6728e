// Package upstream keeps connections to instances and to routers of other workers between
// requests: over HTTP/1.1 one request after the other, over HTTP/2 many at a time.
//
// A kept connection over HTTP/1.1 is looked at before the first byte of a request, and one
// that the other side has ended is not written to: its request was not sent, for certain.
package upstream
