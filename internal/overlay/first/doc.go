// Package first makes the first connection to a service succeed. Service addresses without a rule
// lead to a device of this package. It asks for the rule and then sends the packet again.
//
// Promises:
//
//  1. A packet is written back only once its destination is known. For any other destination
//     the sender is told at once that there is nobody.
//  2. The device outlives the process, so that packets never take another route; a successor
//     opens it again.
//  3. Packets are read one at a time, and what exceeds the device's queue is dropped: a flood
//     costs no memory.
package first
