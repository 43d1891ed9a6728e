// Package claim decides which process of a network namespace has the service network, or runs
// verge dev there. A claim is an abstract unix socket, which the kernel gives to one process at a
// time.
//
// Promises:
//
//  1. One worker of a network namespace has the service network: of several that take it at once,
//     one gets it, and the others learn which process that is.
//  2. A claim ends with its process, however that ends. Nothing is left to be removed.
//  3. A process of another user than root cannot pass for a worker.
package claim
