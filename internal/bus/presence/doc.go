// Package presence knows which nodes are connected to a server, from the events that the
// server publishes.
//
// Promise: listeners are told each change once and in order; a node with two connections for
// a while is present until the last one ends.
package presence
