// Package wg is a worker's WireGuard device: in the kernel if it has WireGuard, else in this
// process with a TUN of its own.
//
// Promises:
//
//  1. The private key is made here, lies in a file that only its owner may read, and is given to
//     the device alone.
//  2. A peer's allowed addresses are routed to the device for exactly as long as the peer exists.
//     Packets to a worker that is no peer take whatever route the machine has.
//  3. In the process, the packets under way are bounded: the kernel drops a flood in front of
//     the device, so that it does not become memory.
//  4. A device in the kernel, with its peers, outlives Close: the next Open takes it over. One in
//     the process ends with the process.
package wg
