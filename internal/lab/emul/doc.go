// Package emul is the emulator of the lab's links: a switch in user space that
// holds a TUN device in each host's namespace and hands packets from one to the
// other when they are due.
//
// Promises:
//
//  1. A packet from A to B leaves the switch its link's latency after it came,
//     plus the time it stood in the link's queue, never earlier. How much later is
//     counted for every packet (Stats.Late).
//  2. Loss is drawn for each packet from a generator of the link's own, seeded by
//     the lab's seed and the link: the same packets have the same fate.
//  3. A link with a rate has a queue of bounded size; what does not fit is dropped
//     at its tail.
//  4. Packets of one direction of a link do not overtake each other unless the
//     link has jitter and Reorder.
//  5. Nothing passes a link that is cut, nor what was on its way then.
//
// One locked thread does it all, with raw system calls and, where the kernel
// permits it, real-time priority: how late a packet is depends on when that thread
// runs. So the switch is a process of its own.
package emul
