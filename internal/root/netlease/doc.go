// Package netlease gives clusters their part of the service network: numbers of workers, IPv4
// subnets, relays, and the numbers of applications. The arithmetic is in policy/lease.
//
// Promises:
//
//  1. No two clusters and no two applications have the same number at a time.
//  2. What a cluster no longer has rests for as long as its certificates may count.
package netlease
