// Package quota decides whether an application fits into the quota of its namespace.
//
// Promises:
//
//  1. Replicas times reservation count, not what runs: a descriptor is accepted or
//     refused whatever state the machines are in.
//  2. An application that is being deleted counts until it is gone.
//  3. A change that asks for no more of a resource than before is never refused for
//     that resource, so that a namespace over its quota can shrink.
//  4. A refusal names every bound that is exceeded, with its numbers.
package quota
