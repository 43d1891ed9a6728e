// Package upgrader lets a worker become the program that its cluster names, and go back.
//
// Promises:
//
//  1. The plan is on disk before its first step (programs): whoever starts next knows which
//     program goes on.
//  2. Only a program that the operator allows is brought (Upgrades).
//  3. A new program that no cluster has answered within a while gives way to the one before,
//     and so does one that was started again meanwhile.
//  4. A program that the machine's own packages install goes before one that was brought.
package upgrader
