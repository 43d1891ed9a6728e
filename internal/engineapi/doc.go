// Package engineapi holds what the agent and the engine of one worker say to each other, over a
// unix socket and in files of the worker's data directory. What the agent passes on between the
// engine and its cluster, such as an Order or an InstanceStatus, is in package wire.
//
// Promises:
//
//  1. An agent and an engine of two versions that follow each other understand each other:
//     they are upgraded one after the other.
//  2. Orders are complete: an engine that was away needs nothing but the latest ones.
package engineapi
