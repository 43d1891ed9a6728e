// Package link gives each instance a network namespace, connected with its worker by a routed pair
// of devices. There is no bridge: traffic between instances is routed by the worker, and so passes
// its ruleset.
//
// Promises:
//
//  1. A namespace has a name in a directory of the worker and lasts until it is removed,
//     whichever process ends. Make finds it again and repairs what is missing.
//  2. Nothing is resolved on the wire: neighbours are fixed, no address is detected or
//     advertised, so an instance can send from its first instruction on.
//  3. The name of everything made contains the worker's mark. Sweep removes what nobody claims,
//     and never anything with another mark.
//  4. "The machine" is the network namespace of the process, on a lab's host as on a real one.
package link
