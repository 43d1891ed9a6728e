// Package first makes the first connection to a service succeed. Addresses of
// services for which there is no rule yet lead to a device of this package; it asks
// that the rule be made, and sends the packet on its way again.
//
// What it promises:
//
//  1. A packet is written back only when its destination is said to be known. To
//     all others the sender is told at once that there is nobody.
//  2. The device lasts when the process ends, so that packets never take another
//     way; a successor opens it again.
//  3. One packet is looked at at a time, and what the device's queue does not hold
//     is dropped: a flood costs no memory.
package first
