// Package relay is the node by which two workers reach each other that have no
// way of their own: the service of the one who offers it, and the requests that
// workers make of it. A root may run it, and any worker.
//
// A worker speaks to a relay in two ways. Requests are made over TLS, with the
// worker's certificate and lease, one for each connection. Beside that the worker
// is a WireGuard peer of the relay: by that the relay knows the worker's outside
// address, has a way through its NAT, and sends it the one message that there is,
// "ask for your mail". The mail says who wants to speak with the worker (a pipe,
// over which both do TLS with each other, end to end) and which port of the relay
// leads to whom (a channel, for WireGuard's packets between both).
//
// Promises:
//
//  1. A relay cannot read what it forwards: pipes carry TLS and channels WireGuard
//     between the workers.
//  2. Only workers of the own root are served, and a channel carries packets of its
//     two workers alone: each end opens for who sends a handshake that is made for
//     the other's key. Who is revoked is out at once, with what goes through it.
//  3. All is bounded: workers, pipes, channels, their rate, messages. What is not
//     used any more is given back.
//  4. A relay remembers nothing over a restart. Each request carries all that is
//     needed to serve it, so that workers find their way back by asking again.
package relay
