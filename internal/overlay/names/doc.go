// Package names answers the DNS questions of a worker's instances.
//
// Below verge.internal a name is
//
//	<instance|any>.<policy>.<service>.<service namespace>.<app>.<app namespace>
//
// of which the first two may be left out: "any" instance, by the service's own
// policy. Search makes the last three be filled in for the own application, so that
// "detector" and "closest.detector" are names.
//
// What it promises:
//
//  1. Names of the zone are answered from memory, at once: an address, "no such
//     name", or "not of this type". What is asked for is made known to the source of
//     answers, so that a path to it is there before the first packet.
//  2. All else is asked of the machine's own resolvers, a bounded number at a time
//     and for a bounded time.
//  3. Who asks too much is not answered; others are.
package names
