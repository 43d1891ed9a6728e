// Package peer finds the paths between workers: which workers are peers of this one's WireGuard
// device, and by which path.
//
// Promises:
//
//  1. A worker becomes a peer only after it has proven its identity in a TLS handshake and shown
//     a lease that the authority of its own cluster has signed. It gets the addresses of that
//     lease and no others.
//  2. No claimed address is believed: a path counts once the other worker has answered over it,
//     which only the holder of its key can.
//  3. A direct path is used if there is one. Otherwise the relay's is used, while direct ones
//     are tried again with back-off.
//  4. A peer that is not wanted and had no traffic for ten minutes is removed.
//  5. No orchestrator is asked for anything.
package peer
