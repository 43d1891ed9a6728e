// Package portpool gives port numbers of the machine to the ports of instances that share its
// network.
//
// Promises:
//
//  1. No two instances of an engine have the same port.
//  2. An instance gets the port that it had, while that is free.
package portpool
