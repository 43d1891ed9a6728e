// Package link gives instances network namespaces of their own, each connected
// with its worker by a routed pair of devices. There is no bridge: what one
// instance sends another passes the routing, and so the ruleset, of the worker.
//
// What it promises:
//
//  1. A namespace has a name in a directory of the worker and lasts until it is
//     removed, whoever else ends. Make finds it again and mends what is missing.
//  2. Nothing is asked on the wire: neighbours are fixed, no address is detected or
//     advertised, so an instance can send from its first instruction on.
//  3. Everything made carries the worker's mark in its name. Sweep removes what
//     nobody claims, and never what bears another mark.
//  4. "The machine" is the network namespace of the process: that of a lab's host as
//     well as that of a real one.
package link
