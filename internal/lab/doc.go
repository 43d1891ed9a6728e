// Package lab is a test bed on one Linux machine: hosts are network namespaces,
// links between them have latency, jitter, loss and a rate, hosts of a site share a
// connection, and the processes in them are real ones.
//
// Promises:
//
//  1. Nothing outside of the lab's own namespaces and its own directory is
//     changed: no route, rule, device or setting of the machine's network.
//  2. Down removes everything, also of a lab whose Up was killed: processes are
//     found by the namespace that they are in, not by what was noted about them.
//  3. What is emulated says how wrong it is: the switch counts how late each
//     packet was, and Meter measures round trips against what is set.
//
// It needs Linux and root.
package lab
