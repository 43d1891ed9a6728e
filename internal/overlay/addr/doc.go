// Package addr derives the addresses of the service network from a worker's lease. It is pure: it
// neither asks for an address nor sets one.
//
// Promises:
//
//  1. The address of an instance names its worker, application and number. No two instances
//     below a root have the same one.
//  2. The IPv6 address of a service is the same on every worker and never that of an instance:
//     services have worker number 0, which no lease has.
//  3. The IPv4 address of a service is valid on its worker only, and stays the same there for as
//     long as the file of the Book exists.
//  4. A returned address is reused as late as possible, so that packets that are still on their
//     way do not reach a stranger.
//  5. A lease that overlaps with a network of the machine is found before anything is set up.
package addr
