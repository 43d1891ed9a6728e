// Package router has the routed services of a worker and their endpoints, and chooses: which
// endpoint is next (by the decider policy/route, whose state it holds), which are out of the
// rotation and probed, when a slow one is hedged by another, and what is learnt of each.
//
// It is one package of 2,500 lines since all of it reads and changes the same state under the
// same lock: what is known of an endpoint decides whether it is picked, probed or hedged.
//
// Promises:
//
//  1. Routes are replaced atomically. A service, and an endpoint with the same instance,
//     worker and address, stay the same objects: health, rotation and counters go on.
//  2. An endpoint that refuses or resets is out of the rotation at once, and back after a
//     successful probe. An opening connection moves on to the next endpoint as long as
//     nothing of it was sent.
//  3. A worker counts as gone only if what was begun after its last sign of life fails.
package router
