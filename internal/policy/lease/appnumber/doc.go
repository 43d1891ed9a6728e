// Package appnumber chooses the number that an application has in the addresses of its instances.
// The root has a range of its own, and each cluster another one, by its index, for applications
// that begin at its site while the root is away.
//
// Promises: no two ranges overlap; a number in use is not chosen, and a freed one is chosen again
// as late as possible.
package appnumber
