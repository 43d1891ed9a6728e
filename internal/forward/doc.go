// Package forward carries TCP connections over one byte stream in each direction,
// such as the input and output of a session in an instance: many at a time, each
// with its own window, so that one that nobody reads holds up no other.
//
// Promises:
//
//  1. A connection whose one direction has ended goes on in the other.
//  2. What nobody reads is held in a window of 256 KiB and then holds up its sender.
//  3. Nobody opens more than MaxConnections at a time, and none to a port that dial
//     does not know.
//  4. Serve and Client leave no goroutine behind when they have returned or were
//     closed.
package forward
