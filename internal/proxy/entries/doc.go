// Package entries owns the loopback addresses of services on a worker: their listeners, and
// the durable book of their port numbers.
//
// Promises:
//
//  1. A port of a service has the same address for as long as the file of the book lives;
//     what else holds that address is waited for, and the address is never exchanged.
//  2. An address that Reserve returned is durable and listened on.
//  3. Entries that close leave their open connections alone.
package entries
