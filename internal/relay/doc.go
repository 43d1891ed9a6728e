// Package relay is the node by which two workers reach each other that have no direct path: the
// service of a relay, and the requests that workers make of it. A root may run one, and any worker.
//
// A worker speaks to a relay in two ways. It makes requests over TLS, with its certificate and
// lease, each over a connection of its own. It is also a WireGuard peer of the relay, which thereby
// knows the worker's outside address, has a way through its NAT, and sends it the only message that
// exists, "ask for your mail". The mail says who wants to speak with the worker (a pipe, over which
// both do TLS with each other, end to end) and which port of the relay leads to whom (a channel, for
// WireGuard's packets between both).
//
// Promises:
//
//  1. A relay cannot read what it forwards: pipes carry TLS and channels carry WireGuard between
//     the workers.
//  2. Only workers of the own root are served. A channel carries packets of its two workers
//     alone: each end opens for the sender of a handshake that is made for the other's key. A
//     revoked worker is out at once, with everything that it has open.
//  3. Everything is bounded: workers, pipes, channels, their rate, messages. What is unused is
//     returned.
//  4. A relay keeps nothing over a restart. Each request carries all that is needed to serve it,
//     so that workers recover by asking again.
package relay
