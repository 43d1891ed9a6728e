// Package fastpath is the driver of a call for plain HTTP/1.1, which package http1 relays in
// place: no copy of heads or bodies, and no allocation for a request over kept connections.
// What is more than that goes to package forward, with the connection.
package fastpath
