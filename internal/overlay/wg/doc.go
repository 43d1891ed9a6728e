// Package wg is a worker's WireGuard device: in the kernel where that has it,
// else in this process with a TUN of its own.
//
// Promises:
//
//  1. The private key is made here, lies in a file that only the owner may read,
//     and leaves it towards the device alone.
//  2. A peer's allowed addresses are routed to the device for as long as the peer
//     is there, and no longer: what is sent to a worker that is no peer takes the
//     route that somebody else has made for it.
//  3. In the process what is under way at a time is bounded: a flood is dropped by
//     the kernel in front of the device, it does not become memory.
//  4. A device in the kernel, with its peers, outlives Close: the next Open takes
//     it over. One in the process ends with the process.
package wg
