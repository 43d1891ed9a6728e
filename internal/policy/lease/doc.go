// Package lease decides which part of the service network each worker of a cluster has, and which
// addresses it may assign. It is a decider. Package grant decides what the root leases to
// clusters, package appnumber which number an application has.
//
// Promises:
//
//  1. No number and no /24 has two owners: new leases overlap neither existing ones nor
//     resting ones.
//  2. A lease stays the same for as long as it lies within its lessor's blocks: absence,
//     restarts and renewals change nothing.
//  3. A returned lease rests until nobody accepts its former owner any more.
//  4. A cluster that was restored from a backup leases nothing that a worker which joined after
//     the backup may have.
//  5. When IPv4 is used up, numbers are still leased: IPv6 goes on.
package lease
