// Package hardware finds the devices of a machine that instances may have, such as GPUs, tensor
// processors and cameras, and the speed of its network card. It reads what the kernel says in
// /proc and /sys, and opens no device.
//
// Promises:
//
//  1. A device keeps its id for as long as it is plugged in the same way: a restart of the agent,
//     or another device beside it, changes no id.
//  2. A device that is set replaces the one that is found under the same path. One that is absent
//     is reported as missing and not offered.
//  3. The order of devices depends on the machine alone, and their number is bounded
//     (api.MaxDevices).
package hardware
