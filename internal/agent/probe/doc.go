// Package probe finds out what a machine has for instances: processors, memory, disk and features
// of the kernel. Package hardware below it finds devices and the network card.
//
// Promises:
//
//  1. What is set replaces what is found. More memory or disk than the machine has is refused.
//  2. The amount of free disk that a worker once offered stays for as long as it is about right,
//     so that a restart moves nothing that was placed on it.
package probe
