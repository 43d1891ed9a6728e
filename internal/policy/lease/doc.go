// Package lease decides who has which part of the service network: what a root
// gives its clusters, and these their workers.
//
// Promises:
//
//  1. No number and no /24 has two owners: what is given lies in nothing that
//     anybody has, nor in what rests.
//  2. What somebody has stays what it is for as long as it is within what its giver
//     has: being away, restarts and renewals change nothing.
//  3. What is given back rests until nobody believes its former owner any more.
//  4. A giver that was restored from a backup gives nothing that the one before it
//     may have given.
//  5. Where IPv4 is used up, numbers are given all the same: IPv6 goes on.
package lease
