// Package network connects the instances of a worker: it decides once whether by the service
// network (see package overlay) or by the network of the machine, and gives each instance its
// place. Relay lets the worker be a relay for others.
//
// Promises:
//
//  1. What an earlier engine started and still runs counts more than the settings: it is never
//     cut off.
//  2. Where the service network is optional and fails, instances share the machine's, and
//     nothing of it is left in the kernel.
//  3. An instance that waits for its place has not failed.
package network
