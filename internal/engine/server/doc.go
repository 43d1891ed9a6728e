// Package server answers the agent of a worker: the messages of package wire over HTTP, on a
// unix socket.
//
// Promises:
//
//  1. What is sent is bounded in bytes and time.
//  2. An error is a wire.Problem whose code says what to do.
package server
