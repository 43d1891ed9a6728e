// Package netlease is the service network as a cluster knows it: what the root gave it of it,
// what each of its workers has of that, signed, and the numbers of applications in addresses.
// What is given to whom is decided by policy/lease.
//
// Promises:
//
//  1. A lease belongs to the key of a worker for good: another node of its name gets another
//     one, and what was given back rests before it is given again.
//  2. No worker is told a number or an address that is not stored.
//  3. The addresses of what runs do not change: an incarnation keeps the number it began with.
//  4. After a restore nothing is given that a worker may still have.
package netlease
