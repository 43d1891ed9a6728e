// Package addr makes addresses of the service network out of a worker's lease. It
// is pure: no address is asked for or set here.
//
// What it promises:
//
//  1. The address of an instance tells its worker, application and number, and no
//     two instances below a root have the same.
//  2. The IPv6 address of a service is the same on every worker, and never that of
//     an instance: worker 0, which no lease has, is the place of services.
//  3. The IPv4 address of a service means something on its worker alone, and is the
//     same there for as long as the file of the Book lives.
//  4. What is given back is given again as late as possible, so that a packet under
//     way to what is gone does not meet a stranger.
//  5. A lease that overlaps with a network of the machine is found before anything
//     is set up.
package addr
