// Package peer finds the ways between workers: who is a peer of this one's
// WireGuard device, and by which path.
//
// Promises:
//
//  1. A worker becomes a peer only after it has proven in a TLS handshake who it
//     is, and with a lease that the authority of its own cluster has signed. It
//     gets the addresses of that lease and no others.
//  2. No address that somebody claims is believed: a path counts when the other
//     worker has answered over it, which only the holder of its key can.
//  3. A direct path is used when there is one. Where there is none, or none any
//     more, the relay's is used, while direct ones are tried again with back-off.
//  4. Who is not wanted and has no traffic for ten minutes is no peer any more.
//  5. No orchestrator is asked for anything.
package peer
