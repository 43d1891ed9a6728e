// Package names answers the DNS questions of a worker's instances.
//
// A name below verge.internal is
//
//	<instance|any>.<policy>.<service>.<service namespace>.<app>.<app namespace>
//
// The first two labels may be left out: "any" instance, chosen by the service's own policy. The
// search domains fill in the last three for the own application, so that "detector" and
// "closest.detector" are names.
//
// Promises:
//
//  1. Names of the zone are answered from memory at once: an address, "no such name", or "not of
//     this type". The source of answers learns what was asked for, so that a path exists before
//     the first packet.
//  2. Other names are forwarded to the machine's resolvers, a bounded number at a time and for a
//     bounded time.
//  3. A client that asks too much gets no answer; others do.
package names
